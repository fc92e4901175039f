package probe

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"unicode/utf8"
)

// A Seal hides a tool's output from everyone except the client that called the tool. If a probe runs in a pod, its
// stdout is its container's log. The kubelet keeps that log, and log shippers forward it. Without a seal, everyone who
// can read logs could see root's screen.
type Seal struct{ box cipher.AEAD }

// Sealed sets a new single-use key on a call. It returns the Seal that decrypts the answer.
func (c *Call) Sealed() *Seal {
	c.Key = make([]byte, 32)
	_, _ = rand.Read(c.Key) // never fails (crypto/rand)
	s, _ := c.seal()        // never fails: the key has the right length
	return s
}

// seal returns the Seal for the answer, or nil if the client sent no key.
func (c *Call) seal() (*Seal, error) {
	if len(c.Key) == 0 {
		return nil, nil
	}
	block, err := aes.NewCipher(c.Key)
	if err != nil {
		return nil, err
	}
	// Each piece contains its nonce, so the client can decrypt it even if earlier pieces were lost.
	box, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Seal{box}, nil
}

// close encrypts a piece of output.
func (s *Seal) close(ev Event) Event {
	b := ev.Data
	if b == nil {
		b = []byte(ev.Text)
	}
	return Event{Type: EventOut, Data: s.box.Seal(nil, nil, b, nil), Sealed: true}
}

// Open decrypts a piece of encrypted output. It does not change any other event, because older probes do not encrypt.
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
