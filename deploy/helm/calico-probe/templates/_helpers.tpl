{{- define "calico-probe.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: calico-probe
{{- end }}

{{/* The subjects of a binding, as RBAC wants them. */}}
{{- define "calico-probe.subjects" -}}
{{- range .Values.subjects }}
- kind: {{ .kind }}
  name: {{ .name | quote }}
  {{- if eq .kind "ServiceAccount" }}
  namespace: {{ .namespace | quote }}
  {{- else }}
  apiGroup: rbac.authorization.k8s.io
  {{- end }}
{{- end }}
{{- end }}

{{- define "calico-probe.serve" -}}
name: calico-probe-serve
namespace: {{ .Values.namespace.name | quote }}
labels:
  {{- include "calico-probe.labels" . | nindent 2 }}
{{- end }}

{{- define "calico-probe.selects" -}}
app.kubernetes.io/component: serve
app.kubernetes.io/part-of: calico-probe
{{- end }}
