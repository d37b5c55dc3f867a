{{/* The release name if it contains the chart name, else <release>-<chart>; at most 63 characters. */}}
{{- define "hub-agent.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hub-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hub-agent.labels" -}}
{{ include "hub-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
Fills in the defaults of values that are absent. `helm upgrade --reuse-values` brings the values of the release as it
was, whichever chart made it, and no default of this one: what is new here would be nothing. A map is completed key by
key, but for the resources, where a key that is left out means something. Call it at the top of each template.
*/}}
{{- define "hub-agent.fill" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- $value := index $values $key -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := set $values $key $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" $value) (ne $key "resources") -}}
{{- include "hub-agent.fill" (list $value $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hub-agent.defaults" -}}
{{- include "hub-agent.fill" (list .Values (.Files.Get "files/values.yaml" | fromYaml)) -}}
{{- if regexMatch "^ghcr.io/(kubefleet-dev|azure/fleet)/" .Values.image.repository -}}
{{- fail "image.repository is KubeFleet's image, which does not know this chart's flags: set image.repository" -}}
{{- end -}}
{{- end -}}

{{/* A CRD as it is installed: kept whatever happens to the release, for removing it deletes every object of its kind. */}}
{{- define "hub-agent.crd" -}}
{{- $_ := set .metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") (.metadata.annotations | default dict)) -}}
---
{{ toYaml . }}
{{ end -}}

{{/*
Refuses an upgrade that would remove a CRD: one that the release has and that is not among those rendered. Helm looks at
the object in the cluster, so that only an annotation there keeps it.
*/}}
{{- define "hub-agent.lost-crds" -}}
{{- $release := (index . 0).Release -}}
{{- $rendered := index . 1 -}}
{{- $lost := list -}}
{{- if $release.IsUpgrade -}}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items -}}
{{- $marks := .metadata.annotations | default dict -}}
{{- $ours := and (eq (get $marks "meta.helm.sh/release-name") $release.Name) (eq (get $marks "meta.helm.sh/release-namespace") $release.Namespace) -}}
{{- if and $ours (ne (get $marks "helm.sh/resource-policy") "keep") (not (has .metadata.name $rendered)) -}}
{{- $lost = append $lost .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $lost -}}
{{- fail (printf "this upgrade would remove CRDs of the release, and with each every object of its kind. To keep them, run this first: kubectl annotate crd %s helm.sh/resource-policy=keep" (join " " .)) -}}
{{- end -}}
{{- end -}}
