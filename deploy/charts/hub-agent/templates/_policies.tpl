{{/*
Parts of the ValidatingAdmissionPolicies. Names that come from values are written as JSON, which CEL reads as it is: no
character of them can end a text early.
*/}}

{{/* A policy that is in force wherever it matches: call with (list . "name"). */}}
{{- define "hub-agent.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels:
    {{- include "hub-agent.labels" (index . 0) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
{{- end -}}

{{/* A list, or a text with commas between, as a JSON list without empty entries. */}}
{{- define "hub-agent.names" -}}
{{- $names := list -}}
{{- range (kindIs "string" . | ternary (splitList "," (toString .)) .) -}}
{{- with trim (toString .) -}}{{- $names = append $names . -}}{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* Who the agent is. */}}
{{- define "hub-agent.username" -}}
system:serviceaccount:{{ .Values.namespace }}:{{ include "hub-agent.fullname" . }}-sa
{{- end -}}

{{/*
Who asks, whom guard rails trust, and the sentence for everybody else. Every field of the request that may be absent is
asked for first: a rule that cannot be evaluated would not deny, but it would not guard either.
*/}}
{{- define "hub-agent.guard-rail.variables" -}}
- name: user
  expression: "has(request.userInfo.username) ? request.userInfo.username : ''"
- name: groups
  expression: "has(request.userInfo.groups) ? request.userInfo.groups : []"
- name: admin
  expression: >-
    variables.user in {{ include "hub-agent.names" (prepend (include "hub-agent.names" .Values.whitelistedUsers | fromJsonArray) (include "hub-agent.username" .)) }} ||
    variables.groups.exists(g, g in {{ include "hub-agent.names" (concat (list "system:masters" "kubeadm:cluster-admins") (include "hub-agent.names" .Values.whitelistedGroups | fromJsonArray)) }})
- name: operator
  expression: >-
    variables.admin ||
    variables.user in ['system:kube-scheduler', 'system:kube-controller-manager', 'system:cloud-controller-manager', 'aks-support'] ||
    variables.groups.exists(g, g in ['system:serviceaccounts', 'system:nodes'])
- name: subject
  expression: >-
    object != null && has(object.metadata) && has(object.metadata.name) ? object.metadata.name :
    oldObject != null && has(oldObject.metadata) && has(oldObject.metadata.name) ? oldObject.metadata.name :
    has(request.name) ? request.name : ''
- name: kind
  expression: "has(request.requestKind) ? request.requestKind : request.kind"
- name: refusal
  expression: >-
    "user: '" + variables.user + "' in 'groups: [" + (variables.groups.size() > 10 ?
    variables.groups[0] + ', ' + variables.groups[1] + ', ' + variables.groups[2] + ',......' : variables.groups.join(' ')) +
    "]' is not allowed to " + request.operation + ' resource ' + variables.kind.group + '/' + variables.kind.version +
    ', Kind=' + variables.kind.kind + '/' + (has(request.subResource) ? request.subResource : '') + ': '
{{- end -}}

{{/* The labels of KubeFleet's policy manager. Helm itself makes managed-by its own when it installs. */}}
{{- define "hub-agent.policy-manager.labels" -}}
{{ include "hub-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: fleet-hub-agent
app.kubernetes.io/part-of: fleet
app.kubernetes.io/component: admission-policy-manager
{{- end -}}

{{/* A map of maps as JSON, all keys in lower case: configuration files may write them as they like. */}}
{{- define "hub-agent.lower-keys" -}}
{{- $lower := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $lower (lower $key) (include "hub-agent.lower-keys" $value | fromJson) -}}
{{- else -}}
{{- $_ := set $lower (lower $key) $value -}}
{{- end -}}
{{- end -}}
{{- toJson $lower -}}
{{- end -}}

{{/* Helm takes nothing over that another program has made, and would say so in a way that helps nobody. */}}
{{- define "hub-agent.policy-manager.left" -}}
{{- $left := list -}}
{{- range $kind, $suffix := dict "ValidatingAdmissionPolicy" "" "ValidatingAdmissionPolicyBinding" "-binding" -}}
{{- range list "deny-pods-and-replicasets-outside-reserved-namespaces" "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces" -}}
{{- with lookup "admissionregistration.k8s.io/v1" $kind "" (print . $suffix) -}}
{{- if not (hasKey (.metadata.annotations | default dict) "meta.helm.sh/release-name") -}}
{{- $left = append $left (printf "%s/%s" (lower $kind) .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $left -}}
{{- fail (printf "KubeFleet's hub agent has left policies of the names that this release gives its own. Run this first: kubectl delete %s" (join " " .)) -}}
{{- end -}}
{{- end -}}
