// Tokens counts how many tokens a text is for a language model: that of stdin, by the vocabulary o200k_base.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tiktoken-go/tokenizer"
)

func main() {
	if err := count(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func count() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return err
	}
	n, err := codec.Count(string(text))
	if err != nil {
		return err
	}
	fmt.Println(n)
	return nil
}
