package alerts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Limits of a notification. They are far above normal sizes, because Alertmanager does not retry after a 4xx response.
const (
	maxBody         = 8 << 20
	maxNotified     = 5000     // number of alerts
	maxAlertBytes   = 64 << 10 // of one alert with its annotations, which are not read
	maxLabels       = 64       // of one alert
	maxLabelBytes   = 4096     // of the names and values of one alert's labels together
	maxFingerprint  = 64
	maxName         = 200 // of an alert's name, when shown and stored
	webhookVersion  = "4" // since Alertmanager 0.6
	statusFiring    = "firing"
	statusResolved  = "resolved"
	labelAlertname  = "alertname"
	contentTypeJSON = "application/json"
)

// notified has those fields of Alertmanager's alerts that are needed. New releases may add fields.
type notified struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Fingerprint string            `json:"fingerprint"`
}

// notice is a parsed notification.
type notice struct {
	alerts    []Alert
	beyond    int   // number of alerts beyond the maximum, without the alert that represents them
	truncated int64 // number of alerts that the receiver's max_alerts left out
}

// parse parses a notification. An invalid alert gets a reason in odd, and does not affect the other alerts.
func parse(b []byte) (notice, error) {
	n, version, err := decode(json.NewDecoder(bytes.NewReader(b)))
	switch {
	case err != nil:
		return notice{}, fmt.Errorf("not a notification of Alertmanager: %w", err)
	case version != webhookVersion:
		return notice{}, fmt.Errorf("version %q of Alertmanager's webhook is not supported, only version %s", version, webhookVersion)
	case len(n.alerts) == 0:
		return notice{}, errors.New("has no alerts")
	}
	return n, nil
}

// decode decodes one alert at a time. If a body contains only tiny alerts, decoding all of them at once would need a
// hundred times the body's size.
func decode(dec *json.Decoder) (n notice, version string, err error) {
	if err := opens(dec, '{'); err != nil {
		return notice{}, "", err
	}
	var skipped json.RawMessage
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return notice{}, "", fmt.Errorf("reading JSON: %w", err)
		}
		switch key {
		case "version":
			err = dec.Decode(&version)
		case "truncatedAlerts":
			err = dec.Decode(&n.truncated)
		case "alerts":
			err = n.take(dec)
		default:
			err = dec.Decode(&skipped)
		}
		if err != nil {
			return notice{}, "", fmt.Errorf("reading %s: %w", key, err)
		}
	}
	if _, err := dec.Token(); err != nil { // end of the object
		return notice{}, "", fmt.Errorf("reading JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return notice{}, "", errors.New("there is data after it")
	}
	n.truncated = max(0, n.truncated)
	return n, version, nil
}

func opens(dec *json.Decoder, what json.Delim) error {
	got, err := dec.Token()
	if err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	if got != what {
		return fmt.Errorf("%v instead of %v", got, what)
	}
	return nil
}

// take decodes the list of alerts.
func (n *notice) take(dec *json.Decoder) error {
	if err := opens(dec, '['); err != nil {
		return err
	}
	var raw json.RawMessage
	for dec.More() {
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("alert %d: %w", len(n.alerts)+1, err)
		}
		switch {
		case len(n.alerts) < maxNotified:
			n.alerts = append(n.alerts, alertOf(raw))
		case len(n.alerts) == maxNotified:
			n.alerts = append(n.alerts, Alert{odd: fmt.Sprintf("it is beyond the first %d alerts of a notification: group by more labels (group_by)", maxNotified)})
		default:
			n.beyond++
		}
	}
	_, err := dec.Token()
	return err
}

func alertOf(raw json.RawMessage) Alert {
	var a notified
	if len(raw) > maxAlertBytes {
		return Alert{odd: fmt.Sprintf("it has %d KiB, the maximum is %d", len(raw)>>10, maxAlertBytes>>10)}
	}
	err := json.Unmarshal(raw, &a)
	one := Alert{
		Fingerprint: a.Fingerprint, StartsAt: a.StartsAt, Name: probe.Cut(a.Labels[labelAlertname], maxName),
		Labels: a.Labels, firing: a.Status == statusFiring,
	}
	switch {
	case err != nil:
		one.odd = "it is unreadable: " + probe.Cut(err.Error(), 200)
	case a.Status != statusFiring && a.Status != statusResolved:
		one.odd = fmt.Sprintf("its status is %.40q, neither firing nor resolved", a.Status)
	case len(a.Labels) == 0:
		one.odd = "it has no labels"
	case a.StartsAt.IsZero():
		one.odd = "it has no start time"
	default:
		one.odd = oddLabels(a.Labels)
	}
	if one.odd != "" { // invalid labels must not be stored
		one.Labels = nil
	}
	if a.Status == statusResolved {
		one.Resolved = a.EndsAt
	}
	if one.Fingerprint == "" || len(one.Fingerprint) > maxFingerprint {
		one.Fingerprint = fingerprint(a.Labels)
	}
	return one
}

func oddLabels(labels map[string]string) string {
	if len(labels) > maxLabels {
		return fmt.Sprintf("it has %d labels, the maximum is %d", len(labels), maxLabels)
	}
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	if size > maxLabelBytes {
		return fmt.Sprintf("its labels have %d bytes, the maximum is %d", size, maxLabelBytes)
	}
	return ""
}

// fingerprint computes a fingerprint for alerts without one.
func fingerprint(labels map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		_, _ = fmt.Fprintf(h, "%q=%q,", name, labels[name]) // never fails (hash.Hash)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
