package probe_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// A maker creates secrets and the text around them, the same ones each time.
type maker struct{ *rand.Rand }

func (m maker) of(letters string, least, most int) string {
	b := make([]byte, least+m.IntN(most-least+1))
	for i := range b {
		b[i] = letters[m.IntN(len(letters))]
	}
	return string(b)
}

func (m maker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	return b
}

const (
	lowerDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	wordLetters = lowerDigits + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// word is a password that needs no quotes, of one of the alphabets in use.
func (m maker) word() string {
	switch m.IntN(4) {
	case 0:
		return m.of(wordLetters, 8, 40)
	case 1:
		return hex.EncodeToString(m.bytes(4 + m.IntN(28)))
	case 2:
		return base64.StdEncoding.EncodeToString(m.bytes(6 + m.IntN(42)))
	}
	return m.of(wordLetters+"!#$%^*()_+.,/-~", 8, 40)
}

// phrase is a password of several words, in quotes.
func (m maker) phrase() string {
	return m.of(lowerDigits, 3, 9) + " " + m.of(lowerDigits, 3, 9) + " " + m.of(lowerDigits, 3, 9)
}

func (m maker) token() string { return m.of(lowerDigits, 6, 6) + "." + m.of(lowerDigits, 16, 16) }

func (m maker) pick(of ...string) string { return of[m.IntN(len(of))] }

// around is a text as components write it, with the secret's part in it.
func (m maker) around(part string) string {
	return m.pick(
		`E1126 03:12:44.123456 1 reflector.go:205] "Failed to watch" err="failed to list" `+part,
		`2026-11-26 03:12:44.123 [WARNING][62] felix/client.go 310: Could not connect `+part+` error=EOF`,
		`time="2026-11-26T03:12:44Z" level=error msg="refused" `+part,
		"apiVersion: v1\nkind: Config\nspec:\n  "+part+"\n  image: calico/node:v3.32.1\n",
		"/usr/bin/tool --v=2 "+part+" --log-level info",
		"Warning  Failed  3s (x4 over 9s)  kubelet  Error: exit status 1: "+part,
		part)
}

// kinds are the forms of secrets that have a name or a shape: each of them is always recognised.
var kinds = map[string]func(m maker) (text, secret string){
	"yaml": func(m maker) (string, string) {
		s := m.word()
		return m.pick("password", "dbPassword", "client-secret", "passphrase", "api_key", "psk", "pwd", "pass",
			"accountKey") +
			": " + m.pick(s, `"`+s+`"`, "'"+s+"'"), s
	},
	"json": func(m maker) (string, string) {
		s := m.word()
		name := m.pick("password", "psk", "pwd", "pass", "token", "secretKey", "sessionCookie", "private_key", "DB_PASS")
		return m.pick(`{"user":"a","`+name+`":"`+s+`","port":5432}`, `{\"user\":\"a\",\"`+name+`\":\"`+s+`\"}`,
			`{ "`+name+`" : "`+s+`" }`), s
	},
	"phrase": func(m maker) (string, string) {
		s := m.phrase()
		return m.pick(`password="`, `psk: "`, `--token "`, `"pwd": "`) + s + `"`, s
	},
	"block": func(m maker) (string, string) {
		s := m.word()
		return m.pick("password", "token") + m.pick(": |\n    ", ": >-\n    ") + s, s
	},
	"environment": func(m maker) (string, string) {
		s := m.word()
		name := m.pick("ETCD_PASSWORD", "AWS_SECRET_ACCESS_KEY", "DB_PASS", "WIFI_PSK", "MYSQL_PWD", "X_TOKEN")
		return m.pick(name+"="+s, "- name: "+name+"\n    value: "+s, `{"name":"`+name+`","value":"`+s+`"}`,
			"{Name:"+name+",Value:"+s+",ValueFrom:nil,}", name+" "+s), s
	},
	"flag": func(m maker) (string, string) {
		s := m.word()
		return m.pick("--password=", "--password ", "--token ", "-psk ", "--db-pass=", "-passin pass:",
			"--client-secret ") + s, s
	},
	"psk": func(m maker) (string, string) {
		s := m.word()
		return m.pick("psk="+s, `10.0.0.1 10.0.0.2 : PSK "`+s+`"`, "wpa_psk="+s), s
	},
	"connection string": func(m maker) (string, string) {
		s := m.of(wordLetters, 8, 40)
		return m.pick("Server=db;Uid=app;Pwd="+s+";Port=3306", "host=db user=app password="+s+" sslmode=disable",
			"DefaultEndpointsProtocol=https;AccountName=x;AccountKey="+s+";EndpointSuffix=core"), s
	},
	"value first": func(m maker) (string, string) {
		s, name := m.word(), m.pick("ETCD_PASSWORD", "DB_PASS", "X_TOKEN", "MYSQL_PWD")
		return m.pick(`{"value":"`+s+`","name":"`+name+`"}`, `{\"value\":\"`+s+`\",\"name\":\"`+name+`\"}`,
			`{ "value": "`+s+`", "name": "`+name+`" }`, "- value: "+s+"\n    name: "+name,
			"- value: '"+s+"'\n    name: "+name), s
	},
	"nested": func(m maker) (string, string) {
		s, name := m.pick(m.of(wordLetters, 8, 40), m.phrase()), m.pick("password", "dbPassword", "client_secret", "token")
		return m.pick(`{"`+name+`":{"value":"`+s+`"},"port":1}`, `{ "`+name+`": { "plain": "`+s+`" } }`,
			`"`+name+`": {"kind": "x", "of": {"is": "}"}, "text": "`+s+`"}`, name+":\n    value: \""+s+`"`,
			`"`+name+`": [ { "value": "`+s+`" } ]`), s
	},
	"arrow": func(m maker) (string, string) {
		s := m.word()
		return m.pick("password -> ", "password->", "X_TOKEN -> ", "psk => ", `"pwd" -> "`) + s + m.pick("", `"`), s
	},
	"tag": func(m maker) (string, string) {
		s := m.word()
		tag := m.pick("!!str ", "!!binary ", "!!binary |\n    ", `!!str "`)
		return m.pick("password", "client-secret", "psk") + ": " + tag + s, s
	},
	"url user with quotes": func(m maker) (string, string) {
		letters := wordLetters + "!$%*_.-"
		s := m.of(letters, 6, 20) + m.pick(`"`, "'", `\"`, `"'`) + m.of(letters, 6, 20)
		return m.pick("https://", "postgres://", `server: "https://`) + "app:" + s + "@10.0.0.9:6443/x", s
	},
	"dsn": func(m maker) (string, string) {
		s := m.of(wordLetters+"!#$%^*()_+.,-", 6, 40)
		return m.pick("app:"+s+"@tcp(10.0.0.9:3306)/orders", "dsn="+"app:"+s+"@db.example:5432/orders?sslmode=disable",
			`"root:`+s+`@[fd00::9]:6379"`), s
	},
	"url user": func(m maker) (string, string) {
		s := m.of(wordLetters+"!$%*()_+.,-/", 6, 40)
		return m.pick("https://", "postgres://", "amqp+ssl://", `server: "https://`) + "app:" + s + "@10.0.0.9:6443/x", s
	},
	"url query": func(m maker) (string, string) {
		s := url.QueryEscape(m.word())
		return m.pick("https://10.0.0.1:6443/x?token=", `Get "https://h.example/x?a=1&access=`,
			"https://a.blob.example/c?sv=2024-11-04&se=2026-11-26&sig=", "https://h.example/cb#access_token=",
			"https://h.example?") + s, s
	},
	"bare query": func(m maker) (string, string) {
		s := url.QueryEscape(m.word())
		return m.pick("GET /x?token=", "?access_token=", "/v2/pull?service=a&api_key=") + s, s
	},
	"sas": func(m maker) (string, string) {
		s := url.QueryEscape(base64.StdEncoding.EncodeToString(m.bytes(32)))
		return m.pick("sv=2024-11-04&ss=b&sig=", "SharedAccessSignature=sr=x&sig=", "?se=1&sig=") + s, s
	},
	"cookie": func(m maker) (string, string) {
		s := m.of(wordLetters, 12, 40)
		return m.pick("Cookie: theme=dark; session="+s, "Set-Cookie: sid="+s+"; HttpOnly", `"Cookie":["sid=`+s+`"]`,
			"map[Cookie:[sid="+s+"; a=b] Accept:[*/*]]", "session_cookie="+s, `--cookie "sid=`+s+`"`), s
	},
	"authorization": func(m maker) (string, string) {
		s := base64.StdEncoding.EncodeToString(m.bytes(9 + m.IntN(30)))
		return m.pick("Authorization: Basic ", "authorization: Bearer ", `-H "Proxy-Authorization: Basic `,
			"using bearer ", `{"auths":{"r.example":{"auth":"`, "curl -u app:") + s + m.pick("", `"`), s
	},
	"jwt": func(m maker) (string, string) {
		s := base64.RawURLEncoding.EncodeToString(m.bytes(90))
		return "eyJhbGciOiJSUzI1NiJ9." + s + "." + base64.RawURLEncoding.EncodeToString(m.bytes(64)), s
	},
	"pem": func(m maker) (string, string) {
		s := base64.StdEncoding.EncodeToString(m.bytes(48))
		return "-----BEGIN " + m.pick("", "RSA ", "EC ", "OPENSSH ") + "PRIVATE KEY-----\n" + s + "\n-----END", s
	},
	"bootstrap": func(m maker) (string, string) {
		s := m.token()
		return m.pick("kubeadm join 10.0.0.1:6443 --token "+s+" --discovery-token-ca-cert-hash sha256:"+strings.Repeat("0a", 32),
			s, `"`+s+`"`, "using "+s+".", "["+s+","+m.token()+"]"), s
	},
	"prefixed": func(m maker) (string, string) {
		s := m.of(wordLetters, 20, 40)
		return m.pick("ghp_"+s, "glpat-"+s, "xoxb-"+s, "dckr_pat_"+s, "hvs."+s,
			"AKIA"+strings.ToUpper(m.of(lowerDigits, 16, 16))+" "), s
	},
}

// leaked reports whether a text has six signs of a secret in a row.
func leaked(text, secret string) bool {
	for i := range max(1, len(secret)-5) {
		if strings.Contains(text, secret[i:min(len(secret), i+6)]) {
			return true
		}
	}
	return false
}

const ofEachKind = 2000

func TestSecretsByRate(t *testing.T) {
	t.Parallel()
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, lost, example := maker{rand.New(rand.NewPCG(33, 4))}, 0, ""
			for range ofEachKind {
				part, secret := kind(m)
				text := m.around(part)
				for _, bare := range []bool{true, false} { // as the probe quotes it, and as a bundle keeps it
					if masked, had := probe.WithoutSecrets(text, bare); leaked(masked, secret) || !had {
						lost++
						example = fmt.Sprintf("%q in %q: %q", secret, text, masked)
						break
					}
				}
			}
			if lost > 0 {
				t.Errorf("%d of %d were not recognised, such as %s", lost, ofEachKind, example)
			}
		})
	}
}

// TestBareKeys measures how many keys without a name are missed among the words of a log.
func TestBareKeys(t *testing.T) {
	t.Parallel()
	const of = 20_000
	for name, c := range map[string]struct {
		key  func(m maker) string
		lost int // of so many
	}{
		"16 bytes, padded":  {func(m maker) string { return base64.StdEncoding.EncodeToString(m.bytes(16)) }, of / 400},
		"24 bytes":          {func(m maker) string { return base64.StdEncoding.EncodeToString(m.bytes(24)) }, of / 200},
		"32 bytes, padded":  {func(m maker) string { return base64.StdEncoding.EncodeToString(m.bytes(32)) }, of / 1000},
		"32 bytes, of URLs": {func(m maker) string { return base64.RawURLEncoding.EncodeToString(m.bytes(32)) }, of / 1000},
		"64 bytes":          {func(m maker) string { return base64.StdEncoding.EncodeToString(m.bytes(64)) }, of / 1000},
		"hexadecimal":       {func(m maker) string { return hex.EncodeToString(m.bytes(16 + m.IntN(15))) }, 0},
		"letters, digits":   {func(m maker) string { return m.of(wordLetters, 40, 60) }, of / 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, lost, example := maker{rand.New(rand.NewPCG(33, 4))}, 0, ""
			for range of {
				key := c.key(m)
				text := m.around(m.pick("it was "+key, `got "`+key+`"`, "["+key+"]", key+",", "(x "+key+")"))
				if masked := probe.Masked(text); leaked(masked, key) {
					lost, example = lost+1, text+": "+masked
				}
			}
			t.Logf("%d of %d were not recognised", lost, of)
			if lost > c.lost {
				t.Errorf("%d of %d were not recognised, such as %q", lost, of, example)
			}
		})
	}
}

// TestNoSecretIsWhole checks that ordinary lines of a node's logs stay unchanged.
func TestNoSecretIsWhole(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("5f3a9c0e", 8)
	uid := "3b1f2a70-9c1d-4e55-8a0b-7f6d5c4b3a21"
	for _, line := range []string{
		`Pulling image "calico/node:v3.32.1@sha256:` + id + `"`,
		"quay.io:443/calico/node:v3.32.1@sha256:" + id + ",quay.io/calico/cni@sha256:" + id,
		`StopPodSandbox for "` + id + `" failed: failed to destroy network for sandbox "` + id + `": EOF`,
		`"RemoveContainer" containerID="` + id + `"`, `containerID={"Type":"containerd","ID":"` + id + `"}`,
		"containerd://" + id, "cri-containerd-" + id + ".scope: Deactivated successfully.",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice",
		"/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~projected/kube-api-access-x7k2p",
		"handle k8s-pod-network." + id, "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/kubepods/pod" + uid + "/" + id + ",task=app",
		"node ip-10-0-1-23.eu-central-1.compute.internal, aks-nodepool1-12345678-vmss000000, gke-prod-default-pool-1a2b3c4d-x1yz",
		"10.244.0.0/16 fd00:10:244::/56 via fe80::ecee:eeff:feee:eeee dev cali0123456789a",
		"goroutine 1 [running]: github.com/projectcalico/calico/felix/dataplane/linux.(*InternalDataplane).loopUpdatingDataplane(0xc0005e8000, 0x1a2b3c)",
		"/go/pkg/mod/k8s.io/client-go@v0.36.4/tools/cache/reflector.go:343 +0x1e5",
		`reflector="k8s.io/client-go@v0.36.4/tools/cache/reflector.go:343" type="*v1.RuntimeClass"`,
		"unable to recognize StagedGlobalNetworkPolicyWithAVeryLongNameIndeed in projectcalico.org/v3",
		`Get "https://10.96.0.1:443/api/v1/nodes?limit=500&resourceVersion=0": dial tcp 10.96.0.1:443: i/o timeout`,
		"net.ipv4.tcp_syncookies=1 sig=11 bypass=1 pass 2 of 3", "ContainerRuntimeEndpoint=\"unix:///run/containerd/containerd.sock\"",
		"automountServiceAccountToken: false", "x509: invalid signature: crypto/rsa: verification error",
		`Post "https://10.88.0.99:6443/api/v1/namespaces/kube-system/serviceaccounts/calico-cni-plugin/token": dial tcp 10.88.0.99:6443: connect: no route to host`,
		"see https://coredns.io/plugins/loop#troubleshooting", `{"server":"https://10.0.0.1:6443","mail":"ops@example.com"}`,
		`{"value":"eth0","name":"IP_AUTODETECTION_METHOD"}`, "- value: autodetect name: IP",
	} {
		if masked := probe.Masked(line); masked != line {
			t.Errorf("%s\nbecame %s", line, masked)
		}
	}
}

// TestNightsAreWhole checks that the texts of every recorded night stay unchanged.
func TestNightsAreWhole(t *testing.T) {
	t.Parallel()
	files := nightfile.All()
	if len(files) == 0 {
		t.Fatal("no recorded nights")
	}
	quoted := regexp.MustCompile(`(?:"saw": ?|"message": ?|"line": ?)("(?:[^"\\]|\\.)*")`)
	whole, changed := 0, 0
	for _, file := range files {
		archive := must.Get(txtar.ParseFile(file))(t)
		for _, f := range archive.Files {
			for _, m := range quoted.FindAllSubmatch(f.Data, -1) {
				var text string
				if err := json.Unmarshal(m[1], &text); err != nil || strings.Contains(text, "(left out)") {
					continue
				}
				if whole++; probe.Masked(text) != probe.OneLine(text) {
					changed++
					t.Logf("%s: %s\nbecame %s", file, text, probe.Masked(text))
				}
			}
		}
	}
	if whole < 1000 || changed > 3 { // one ends within an ID, where it was truncated
		t.Errorf("%d of %d texts of recorded nights lost something", changed, whole)
	}
}

// TestMaskedIsQuick bounds the time for the longest text, with the slowest or most repetitive contents.
func TestMaskedIsQuick(t *testing.T) {
	const limit = 3 * time.Second // on a busy machine; one that reads each value to its end takes 20 s on an idle one
	for _, unit := range []string{"token []{", "token [", `token "`, "token secret ", "token: secret: ", `password "x `,
		"x-token/", "a:b@",
		"://a@b ", "https://a?b=c ", "Cookie: a ", "abcdef.0123456789abcdef ", "passwordpassword", "A1b2C3d4/", "=",
		strings.Repeat("0a", 32) + "-"} {
		began := time.Now()
		probe.Masked(strings.Repeat(unit, 64<<10/len(unit)))
		if took := time.Since(began); took > limit {
			t.Errorf("%v for 64 KiB of %q", took, unit)
		}
	}
}
