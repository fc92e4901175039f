package page

import (
	"fmt"
	"time"
)

// Timeline is what took how long, each as a bar below the others.
type Timeline struct {
	Total time.Duration
	Bars  []Bar
}

// Bar is one of a Timeline.
type Bar struct {
	Label string
	Word  string // by which it is coloured
	From  time.Duration
	Took  time.Duration
	Note  string
}

// wide is how many units the whole time has.
const wide = 1000

// left and width are where a bar stands; what took no time is still seen.
func (t *Timeline) left(b Bar) int {
	if t.Total <= 0 {
		return 0
	}
	return int(float64(min(max(0, b.From), t.Total)) / float64(t.Total) * wide)
}

// width is how long it is.
func (t *Timeline) width(b Bar) int {
	if t.Total <= 0 {
		return 0
	}
	return max(3, min(int(float64(min(b.Took, t.Total))/float64(t.Total)*wide), wide-t.left(b)))
}

// took is how long it took, in words.
func (b Bar) took() string {
	switch {
	case b.Took >= time.Second:
		return fmt.Sprintf("%.1f s", b.Took.Seconds())
	case b.Took >= time.Millisecond:
		return fmt.Sprintf("%d ms", b.Took.Milliseconds())
	}
	return "< 1 ms"
}
