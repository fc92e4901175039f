package runbook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// chats lists the chat programs for which there is a message format.
var chats = []string{"slack", "teams"}

// maxLine is the maximum length of a message line in bytes. Slack accepts 3,000 characters in one text object.
const maxLine = 1500

// message returns a summary of the record so far for a chat's webhook. It puts texts from nodes into plain-text
// elements, so they cannot become links or mentions.
func (r *Record) message(chat string) ([]byte, error) {
	head, lines := r.inShort()
	if chat == "slack" {
		return json.Marshal(slackMessage(head, lines))
	}
	return json.Marshal(teamsMessage(head, lines))
}

// inShort returns a heading and a few lines: the verdict, the first cause with its evidence and fix, and the
// conclusion.
func (r *Record) inShort() (head string, lines []string) {
	word := "runbook unfinished"
	if o := r.Outcome; o != nil {
		word = o.Verdict
	}
	add := func(what, text string) {
		if text = probe.OneLine(text); text != "" {
			lines = append(lines, probe.Cut(what+text, maxLine))
		}
	}
	for _, step := range slices.Backward(r.Steps) {
		if len(step.Asked) == 0 {
			continue
		}
		for _, seen := range step.Asked {
			if seen.Node != r.Node {
				continue
			}
			if r.Outcome == nil {
				word = seen.Verdict
			}
			if len(seen.Causes) > 0 {
				c := seen.Causes[0]
				add("", fmt.Sprintf("%s (%s): %s", strings.TrimSpace(c.ID+" "+c.About), c.Confidence, c.Says))
				add("fix: ", c.Fix.Says)
				add("touches: ", c.Fix.Radius)
			}
		}
		break
	}
	if o := r.Outcome; o != nil {
		add("", o.Says)
		add("next: ", o.Next)
	}
	where := ""
	if r.Cluster != nil {
		where = " of " + r.Cluster.String()
	}
	lines = append(lines, probe.Cut(probe.OneLine("runbook "+r.Runbook+", started by "+r.By), maxLine))
	return probe.Cut(probe.OneLine(word+": node "+r.Node+where), 150), lines
}

// slackMessage returns a message for a Slack incoming webhook, in Slack's Block Kit format.
func slackMessage(head string, lines []string) any {
	text := func(s string) map[string]any { return map[string]any{"type": "plain_text", "text": s, "emoji": false} }
	blocks := []any{map[string]any{"type": "header", "text": text(head)}}
	for _, line := range lines {
		blocks = append(blocks, map[string]any{"type": "section", "text": text(line)})
	}
	// Notifications show this text. Slack does not parse markup or names in it.
	return map[string]any{"text": escaped.Replace(head), "mrkdwn": false, "parse": "none", "link_names": false,
		"unfurl_links": false, "unfurl_media": false, "blocks": blocks}
}

// escaped replaces the three characters that Slack requires to be escaped. The text then cannot become a link or a
// mention.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// teamsMessage returns a message for a Teams Workflows webhook, which is an Adaptive Card.
func teamsMessage(head string, lines []string) any {
	run := func(s string, more map[string]any) any {
		inline := map[string]any{"type": "TextRun", "text": s} // TextRun does not interpret Markdown
		maps.Copy(inline, more)
		return map[string]any{"type": "RichTextBlock", "inlines": []any{inline}}
	}
	body := []any{run(head, map[string]any{"weight": "Bolder", "size": "Medium"})}
	for _, line := range lines {
		body = append(body, run(line, nil))
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"content": map[string]any{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body,
		},
	}}}
}
