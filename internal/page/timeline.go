package page

import (
	"fmt"
	"time"
)

// Timeline is a list of durations, each drawn as a bar.
type Timeline struct {
	Total time.Duration
	Bars  []Bar
}

// Bar is a bar of a Timeline.
type Bar struct {
	Label string
	Word  string // a word that sets the colour
	From  time.Duration
	Took  time.Duration
	Note  string
}

// wide is the width of a whole Timeline in units.
const wide = 1000

// left returns the position at which a bar begins.
func (t *Timeline) left(b Bar) int {
	if t.Total <= 0 {
		return 0
	}
	return int(float64(min(max(0, b.From), t.Total)) / float64(t.Total) * wide)
}

// width returns a bar's length. A bar without a duration is also visible.
func (t *Timeline) width(b Bar) int {
	if t.Total <= 0 {
		return 0
	}
	return max(3, min(int(float64(min(b.Took, t.Total))/float64(t.Total)*wide), wide-t.left(b)))
}

// took returns a bar's duration as text.
func (b Bar) took() string {
	switch {
	case b.Took >= time.Second:
		return fmt.Sprintf("%.1f s", b.Took.Seconds())
	case b.Took >= time.Millisecond:
		return fmt.Sprintf("%d ms", b.Took.Milliseconds())
	}
	return "< 1 ms"
}
