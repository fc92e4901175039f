package install

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// generated returns, by name, the files below deploy/ that are generated from the manifests with a release's images.
func generated(s Serve) (map[string][]byte, error) {
	uses, err := Named(People()...)
	if err != nil {
		return nil, err
	}
	o := Options{Uses: uses, Namespace: Namespace, CalicoNamespace: CalicoNamespace}
	base, err := YAML(Objects(o))
	if err != nil {
		return nil, err
	}
	objects, err := ServeObjects(o, s)
	if err != nil {
		return nil, err
	}
	serve, err := YAML(objects)
	if err != nil {
		return nil, err
	}
	chart, err := yaml.Marshal(charted())
	if err != nil {
		return nil, fmt.Errorf("encoding the chart's rights: %w", err)
	}
	const note = "# Generated from internal/install/ by 'make docs'; do not edit.\n"
	return map[string][]byte{
		"kustomize/base/rights.yaml":          append([]byte(note), base...),
		"kustomize/serve/serve.yaml":          append([]byte(note), serve...),
		"helm/calico-probe/files/rights.yaml": append([]byte(note), chart...),
	}, nil
}

// charts holds the Helm chart's values about rights.
type charts struct {
	PodSecurity map[string]string `json:"podSecurity"` // labels of the namespace
	Same        map[string]string `json:"same"`        // uses with the same rights as another use
	Serve       []string          `json:"serve"`       // the uses of 'serve'
	Uses        []chartUse        `json:"uses"`
	// the validations for the accounts of the use conditions
	Conditions []admissionv1.Validation `json:"conditions"`
}

type chartUse struct {
	Name  string      `json:"name"`
	Roles []chartRole `json:"roles"`
}

type chartRole struct {
	Scope Scope               `json:"scope"`
	Rules []rbacv1.PolicyRule `json:"rules"`
}

func charted() charts {
	out := charts{
		PodSecurity: podSecurityLabels(), Same: map[string]string{}, Serve: append([]string{"api"}, serveUses()...),
		Conditions: policyRules(),
	}
	for _, u := range Uses() {
		if u.As != "" {
			out.Same[u.Name] = u.As
		}
		use := chartUse{Name: u.Name}
		for _, in := range scopes {
			if rules := rulesIn(u.Rights, in); len(rules) > 0 {
				use.Roles = append(use.Roles, chartRole{in, rules})
			}
		}
		if len(use.Roles) > 0 {
			out.Uses = append(out.Uses, use)
		}
	}
	return out
}
