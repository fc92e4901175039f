package probe

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"unicode/utf8"
)

// A Seal keeps what a tool writes from everybody but the client that asked for it. The
// stdout of a probe in a pod is its container's log: the kubelet keeps that, log shippers
// forward it, and anybody who may read logs could read what root had on the screen.
type Seal struct{ box cipher.AEAD }

// Sealed gives a call a key of its own, which is never used again, and returns what opens
// the answer.
func (c *Call) Sealed() *Seal {
	c.Key = make([]byte, 32)
	_, _ = rand.Read(c.Key) // never fails (crypto/rand)
	s, _ := c.seal()        // never fails: so many bytes are a key
	return s
}

// seal is what to seal the answer with, nil where the client has given no key.
func (c *Call) seal() (*Seal, error) {
	if len(c.Key) == 0 {
		return nil, nil
	}
	block, err := aes.NewCipher(c.Key)
	if err != nil {
		return nil, err
	}
	// Each piece brings its nonce along: it can be opened whatever became of those before.
	box, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Seal{box}, nil
}

// close seals a piece of output.
func (s *Seal) close(ev Event) Event {
	b := ev.Data
	if b == nil {
		b = []byte(ev.Text)
	}
	return Event{Type: EventOut, Data: s.box.Seal(nil, nil, b, nil), Sealed: true}
}

// Open makes of a sealed piece of output what it was. Any other event is left as it is:
// a probe of an older version seals nothing.
func (s *Seal) Open(ev Event) (Event, error) {
	if ev.Type != EventOut || !ev.Sealed {
		return ev, nil
	}
	b, err := s.box.Open(nil, nil, ev.Data, nil)
	if err != nil {
		return Event{}, fmt.Errorf("an encrypted piece of %d bytes cannot be decrypted, and is lost", len(ev.Data))
	}
	if ev.Data, ev.Sealed = b, false; utf8.Valid(b) {
		ev.Text, ev.Data = string(b), nil
	}
	return ev, nil
}
