package ask

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// cniTokenCheck binds cni.CNIToken to the function that runs it.
var cniTokenCheck = answers.To(cni.CNIToken, cniToken)

// Facts of cni-token.
const (
	factIssued probe.Fact = "issued" // RFC 3339
	factIssuer probe.Fact = "issuer"
)

// If less than tokenLow of the token's lifetime remains, renewals must have failed. calico-node requests tokens for 24
// hours. It renews each token after a quarter to half of its remaining lifetime (calico, node/pkg/cni/token_watch.go).
// So at least 12 hours normally remain. For tokens with a shorter lifetime, the limit is a quarter of the lifetime.
const tokenLow = time.Hour

func cniToken(ctx context.Context, p *probe.Pass) {
	file, config, missing := pluginConfigOf(ctx, p)
	if missing != nil {
		p.Report(*missing)
		return
	}
	p.Report(config.tokenResult(file).With(probe.FactFile, file))
	if config.server != "" {
		reportProxy(p, config.server)
	}
}

// pluginConfigOf reads calico-kubeconfig from the runtime's folder. If the runtime did not report a folder, it
// tries the usual folders. If it does not find a file, it returns the reason.
func pluginConfigOf(ctx context.Context, p *probe.Pass) (file string, c pluginConfig, missing *probe.Result) {
	places := node.CNIPlaces
	used, ok := runtimePlace(ctx, p)
	if ok {
		places = append([]node.CNIPlace{used}, places...)
	}
	r := probe.Found(probe.Skip, "no %s/calico-kubeconfig on this node", places[0].Config)
	for i, place := range places {
		file := path.Join(place.Config, "calico-kubeconfig")
		text, err := p.Host.ReadFile(file)
		switch {
		case err == nil:
			c = readPluginConfig(text)
			c.folder = used.Config
			return file, c, nil
		case !errors.Is(err, fs.ErrNotExist) && i == 0: // the other folders are guesses
			r = node.Unseen(err)
		}
	}
	return "", pluginConfig{}, &r
}

// pluginConfig holds the relevant parts of a kubeconfig: the API server and CA of its first cluster, and the token
// of its first user.
type pluginConfig struct {
	folder        string // the runtime's folder, "" = not reported
	server        string // URL, "" = none
	serverName    string // the name in the server's certificate, "" = the host of the URL
	authority     []byte // PEM, nil = not in the kubeconfig
	authorityFile string // path of a file that contains the CA, "" = none
	untested      bool   // true if the kubeconfig disables certificate verification
	claims        claims // the token's claims
	err           error  // why claims are missing; never quotes the file
}

// tokenResult evaluates the token.
func (c pluginConfig) tokenResult(file string) probe.Result {
	if c.err != nil {
		return probe.Found(probe.Unknown, "%s: %v", file, c.err)
	}
	return c.claims.judge(time.Now()).With(cni.FactServer, probe.Origin(c.server))
}

// claims holds the claims in a service account token (RFC 7519).
type claims struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Expires int64  `json:"exp"` // seconds since 1970, 0 = it does not expire
	Issued  int64  `json:"iat"`
	From    int64  `json:"nbf"`
	Of      struct {
		Account struct {
			UID string `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// readPluginConfig reads a kubeconfig.
func readPluginConfig(kubeconfig []byte) pluginConfig {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server        string `yaml:"server"`
				ServerName    string `yaml:"tls-server-name"`
				Authority     string `yaml:"certificate-authority-data"`
				AuthorityFile string `yaml:"certificate-authority"`
				Untested      bool   `yaml:"insecure-skip-tls-verify"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
		Users []struct {
			User struct {
				Token string `yaml:"token"`
			} `yaml:"user"`
		} `yaml:"users"`
	}
	if yaml.Unmarshal(kubeconfig, &config) != nil {
		return pluginConfig{err: errors.New("is not a kubeconfig")}
	}
	var c pluginConfig
	if len(config.Clusters) > 0 {
		cluster := config.Clusters[0].Cluster
		c.server, c.untested = cluster.Server, cluster.Untested
		c.serverName, c.authorityFile = cluster.ServerName, cluster.AuthorityFile
		if pem, err := base64.StdEncoding.DecodeString(cluster.Authority); err == nil && len(pem) > 0 {
			c.authority = pem
		}
	}
	if len(config.Users) == 0 || config.Users[0].User.Token == "" {
		c.err = errors.New("contains no token")
		return c
	}
	c.claims, c.err = claimsIn(config.Users[0].User.Token)
	return c
}

// claimsIn decodes a token. Its errors never quote the token.
func claimsIn(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("contains a token that is not a Kubernetes token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return c, errors.New("contains a token that cannot be read")
	}
	return c, nil
}

func (c claims) judge(now time.Time) probe.Result {
	expires, from := time.Unix(c.Expires, 0).UTC(), time.Unix(max(c.From, c.Issued), 0).UTC()
	left := expires.Sub(now).Round(time.Second)
	var r probe.Result
	switch {
	case from.After(now.Add(node.SkewOdd)):
		r = probe.Found(probe.Fail, "the token is not valid before %s, but this node's clock shows %s",
			from.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case c.Expires == 0:
		r = probe.Found(probe.Info, "the token does not expire")
	case left <= 0:
		r = probe.Found(probe.Fail, "the token expired %v ago: no pod gets a network on this node", -left)
	case left < min(tokenLow, expires.Sub(time.Unix(c.Issued, 0))/4):
		r = probe.Found(probe.Warn, "the token expires in %v and has not been renewed", left)
	default:
		r = probe.Found(probe.OK, "the token is valid for %v", left)
	}
	stamp := func(seconds int64) string {
		if seconds == 0 {
			return ""
		}
		return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	return r.With(probe.FactExpires, stamp(c.Expires)).With(factIssued, stamp(c.Issued)).With(factIssuer, c.Issuer).
		With(cni.FactSubject, fmt.Sprintf("%.200s", c.Subject)).
		With(cni.FactAccountUID, fmt.Sprintf("%.64s", c.Of.Account.UID))
}
