package probe

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Size limits for a plan in a program's arguments: Linux allows 128 KiB per argument, and etcd 1.5 MiB per pod.
const (
	maxArg    = 96 << 10
	maxPacked = 1 << 20
)

// Pack returns a plan as arguments for a program. If the JSON fits in one argument, Pack returns plain JSON, so an
// auditor can read it in the pod. Otherwise, it returns several arguments that contain the compressed (gzip) JSON in
// base64.
func (p Plan) Pack() ([]string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("writing a plan: %w", err)
	}
	// The kubelet replaces $(NAME) in arguments.
	text := strings.ReplaceAll(string(b), "$", `\u0024`)
	if len(text) <= maxArg {
		return []string{text}, nil
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is valid
	if _, err := z.Write(b); err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("packing a plan: %w", err)
	}
	text = base64.StdEncoding.EncodeToString(packed.Bytes())
	if len(text) > maxPacked {
		return nil, fmt.Errorf("the plan has %d KiB, and a pod's limit is %d", len(text)>>10, maxPacked>>10)
	}
	var out []string
	for len(text) > 0 {
		piece := text[:min(len(text), maxArg)]
		out, text = append(out, piece), text[len(piece):]
	}
	return out, nil
}

// UnpackPlan reads a plan that Pack wrote.
func UnpackPlan(args []string) (Plan, error) {
	text, plan := strings.Join(args, ""), Plan{}
	b := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
		if err != nil {
			return plan, fmt.Errorf("neither JSON nor a packed plan: %w", err)
		}
		if b, err = io.ReadAll(io.LimitReader(z, maxPlan+1)); err != nil {
			return plan, fmt.Errorf("unpacking a plan: %w", err)
		}
		if len(b) > maxPlan {
			return plan, errors.New("the plan is too large")
		}
	}
	if err := json.Unmarshal(b, &plan); err != nil {
		return plan, fmt.Errorf("reading a plan: %w", err)
	}
	return plan, nil
}
