package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxPacked is the maximum size of the packed data in a page, in bytes. The other parts of a page have their own
// limits.
const maxPacked = 900_000

// data is the part of a page that only the script shows: single nodes and single paths.
type data struct {
	Nodes   []Node            `json:"nodes"`
	Planes  []plane           `json:"planes,omitempty"`
	Classes map[string]string `json:"classes"` // by word
}

// packed is the encoded data in the page.
type packed struct {
	Text string // gzip, URL-safe base64: nothing in it needs escaping
	Left string // the parts omitted to keep the file small
}

// pack returns the packed data for the script, or nil if there is no data. It omits parts until the rest fits.
func pack(p Page) (*packed, error) {
	d := data{Nodes: p.Nodes, Classes: classes}
	for _, part := range p.Parts {
		if m := part.Matrix; m != nil {
			d.Planes = append(d.Planes, m.plane(p.Nodes))
		}
	}
	if len(d.Nodes) == 0 {
		return nil, nil
	}
	out := &packed{}
	for _, next := range []struct {
		says string
		less func(*data)
	}{{"", func(*data) {}}, {"the times of paths that work", withoutTimes}, {"observations on all but the worst nodes", withoutSeen},
		{"observations of each path", withoutSaw}, {"paths that work", withoutGood}, {"single paths", withoutPaths}} {
		next.less(&d)
		if next.says != "" {
			out.Left = strings.TrimPrefix(out.Left+", "+next.says, ", ")
		}
		text, err := squeezed(d)
		if err != nil {
			return nil, err
		}
		if out.Text = text; len(text) <= maxPacked {
			break
		}
	}
	return out, nil
}

// squeezed returns a value as compressed JSON.
func squeezed(v any) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(z).Encode(v)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("packing the data of a page: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// keptSeen is the number of nodes that keep their observations. These are the worst nodes.
const keptSeen = 100

func withoutSeen(d *data) {
	order := make([]int, len(d.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank(d.Nodes[a].Word), rank(d.Nodes[b].Word))
	})
	nodes := slices.Clone(d.Nodes)
	for _, i := range order[min(len(order), keptSeen):] {
		nodes[i].Seen = nil
	}
	d.Nodes = nodes
}

func withoutTimes(d *data) {
	for i := range d.Planes {
		d.Planes[i].Times = nil
	}
}

func withoutSaw(d *data) {
	for i := range d.Planes {
		d.Planes[i].Saw = nil
	}
}

func withoutGood(d *data) {
	for i, p := range d.Planes {
		less := plane{Rows: p.Rows}
		for j, letter := range []byte(p.Words) {
			if letter != letterOK {
				less.From, less.To = append(less.From, p.From[j]), append(less.To, p.To[j])
				less.Words += string(letter)
			}
		}
		d.Planes[i] = less
	}
}

func withoutPaths(d *data) {
	for i := range d.Planes {
		d.Planes[i] = plane{Rows: d.Planes[i].Rows}
	}
}
