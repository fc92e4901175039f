package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// What one notification may have. Alertmanager sends no notification again that it was
// told is bad (4xx), so these are far from what it sends of itself.
const (
	maxBody         = 4 << 20
	maxNotified     = 5000 // alerts
	maxLabels       = 64   // of one alert
	maxLabelBytes   = 4096 // names and values of one alert together
	maxFingerprint  = 64
	webhookVersion  = "4" // since Alertmanager 0.6
	statusFiring    = "firing"
	statusResolved  = "resolved"
	labelAlertname  = "alertname"
	contentTypeJSON = "application/json"
)

// notification is what Alertmanager posts, as far as it matters here; each release may
// add to it.
type notification struct {
	Version   string `json:"version"`
	Receiver  string `json:"receiver"`
	Truncated int64  `json:"truncatedAlerts"` // left out of it, by max_alerts of the receiver
	Alerts    []struct {
		Status      string            `json:"status"`
		Labels      map[string]string `json:"labels"`
		StartsAt    time.Time         `json:"startsAt"`
		EndsAt      time.Time         `json:"endsAt"`
		Fingerprint string            `json:"fingerprint"`
	} `json:"alerts"`
}

// notice is a notification that was understood.
type notice struct {
	alerts    []Alert
	truncated int64
}

// parse reads a notification. An alert in it that is odd is no reason to refuse the
// others: it says so itself.
func parse(b []byte) (notice, error) {
	var n notification
	if err := json.Unmarshal(b, &n); err != nil {
		return notice{}, fmt.Errorf("is no notification of Alertmanager: %w", err)
	}
	switch {
	case n.Version != webhookVersion:
		return notice{}, fmt.Errorf("is of version %q: this reads version %s of Alertmanager's webhook", n.Version, webhookVersion)
	case len(n.Alerts) == 0:
		return notice{}, errors.New("has no alerts")
	case len(n.Alerts) > maxNotified:
		return notice{}, fmt.Errorf("has %d alerts, %d are the most: group them by more labels (group_by)", len(n.Alerts), maxNotified)
	}
	out := notice{truncated: max(0, n.Truncated)}
	for _, a := range n.Alerts {
		one := Alert{Fingerprint: a.Fingerprint, StartsAt: a.StartsAt, Name: a.Labels[labelAlertname], Labels: a.Labels, firing: a.Status == statusFiring}
		switch {
		case a.Status != statusFiring && a.Status != statusResolved:
			one.odd = fmt.Sprintf("its status is %.40q, neither firing nor resolved", a.Status)
		case len(a.Labels) == 0:
			one.odd = "it has no labels"
		case a.StartsAt.IsZero():
			one.odd = "it does not say since when"
		default:
			one.odd = oddLabels(a.Labels)
		}
		if one.odd != "" { // which are not to be kept, then
			one.Name, one.Labels = probe.Cut(one.Name, 200), nil
		}
		if a.Status == statusResolved {
			one.Resolved = a.EndsAt
		}
		if one.Fingerprint == "" || len(one.Fingerprint) > maxFingerprint {
			one.Fingerprint = fingerprint(a.Labels)
		}
		out.alerts = append(out.alerts, one)
	}
	return out, nil
}

func oddLabels(labels map[string]string) string {
	if len(labels) > maxLabels {
		return fmt.Sprintf("it has %d labels, %d are the most", len(labels), maxLabels)
	}
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	if size > maxLabelBytes {
		return fmt.Sprintf("its labels have %d bytes, %d are the most", size, maxLabelBytes)
	}
	return ""
}

// fingerprint is for alerts that bring none.
func fingerprint(labels map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		_, _ = fmt.Fprintf(h, "%q=%q,", name, labels[name]) // never fails (hash.Hash)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
