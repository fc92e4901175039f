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

// mostPacked is how much of a file what is packed may take, in bytes; the rest of it is bounded by what it shows.
const mostPacked = 900_000

// data is what only the script shows: single nodes, and single paths.
type data struct {
	Nodes   []Node            `json:"nodes"`
	Planes  []plane           `json:"planes,omitempty"`
	Classes map[string]string `json:"classes"` // by word
}

// packed is data as it stands in the page.
type packed struct {
	Text string // gzip, base64 for URLs: nothing in it is to be escaped
	Left string // what was left out, so that the file stays small
}

// pack packs what the script shows, nil where it shows nothing. It leaves out more and more until it fits.
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
		if out.Text = text; len(text) <= mostPacked {
			break
		}
	}
	return out, nil
}

// squeezed is a value as compressed JSON.
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

// keptSeen is of how many nodes, the worst, what was seen there stays.
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
