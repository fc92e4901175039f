package alerts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Limits bound the work.
type Limits struct {
	Many        int           // if alerts for more nodes than this are waiting, one run examines all nodes; 0 = never
	Workers     int           // concurrent jobs; at most one per node
	Queue       int           // waiting jobs
	RunsPerHour int           // jobs started within any hour; others wait
	Cooldown    time.Duration // during this time after a job, alerts for the same node and procedure belong to the job
	Job         time.Duration // time limit of a job
	Grace       time.Duration // time that running jobs may continue after the program is stopped

	// Limits of each run in a job, which Look enforces.
	Run   time.Duration // limit of the run
	Start time.Duration // limit of a probe's start; 0 = the default
	Check time.Duration // limit of each check; 0 = the check's default
	Peers int           // number of baseline nodes if something is wrong
}

// DefaultLimits returns limits for a small cluster.
func DefaultLimits() Limits {
	return Limits{
		Many: 5, Workers: 2, Queue: 100, RunsPerHour: 30, Cooldown: 15 * time.Minute, Job: 10 * time.Minute,
		Grace: 30 * time.Second, Run: 2 * time.Minute, Peers: 2,
	}
}

// UnmarshalJSON parses limits, with durations such as 90s or 5m. A limit that is missing in b keeps its value.
func (l *Limits) UnmarshalJSON(b []byte) error {
	fields := struct {
		Many        *int      `json:"many"`
		Workers     *int      `json:"workers"`
		Queue       *int      `json:"queue"`
		RunsPerHour *int      `json:"runsPerHour"`
		Cooldown    *duration `json:"cooldown"`
		Job         *duration `json:"jobTimeout"`
		Grace       *duration `json:"grace"`
		Run         *duration `json:"runTimeout"`
		Start       *duration `json:"startTimeout"`
		Check       *duration `json:"checkTimeout"`
		Peers       *int      `json:"peers"`
	}{
		&l.Many, &l.Workers, &l.Queue, &l.RunsPerHour, (*duration)(&l.Cooldown), (*duration)(&l.Job), (*duration)(&l.Grace),
		(*duration)(&l.Run), (*duration)(&l.Start), (*duration)(&l.Check), &l.Peers,
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(&fields)
}

// duration is a time.Duration in text form.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	v, bad := time.ParseDuration(text)
	if err != nil || bad != nil {
		return fmt.Errorf("%s is not a duration such as 90s or 5m", b)
	}
	*d = duration(v)
	return nil
}

// check rejects limits that would prevent all work.
func (l Limits) check() error {
	switch {
	case l.Workers < 1 || l.Queue < 1 || l.RunsPerHour < 1:
		return errors.New("workers, queue and runsPerHour must be 1 or more")
	case l.Many < 0 || l.Cooldown < 0 || l.Grace < 0 || l.Start < 0 || l.Check < 0 || l.Peers < 0:
		return errors.New("many, cooldown, grace, startTimeout, checkTimeout and peers must not be negative")
	case l.Job < 10*time.Second:
		return errors.New("jobTimeout must be 10s or more")
	case l.Run < time.Second:
		return errors.New("runTimeout must be 1s or more")
	}
	return nil
}
