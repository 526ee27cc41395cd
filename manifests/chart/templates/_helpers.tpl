{{- /* Ends with a message if `.policy`, at `.path`, has a key or a word that is not in `.keys`: a map of keys ("*" is any), a list with what
       each entry has, words with "|" between them, or null for anything. The webhook and `policy lint` check all the rest. */}}
{{- define "gpu-admission.known" }}
{{- $known := .keys }}
{{- if and $known (ne nil .policy) }}
{{- if kindIs "string" $known }}
{{- if and (kindIs "string" .policy) (not (has .policy (splitList "|" $known))) }}
{{- fail (printf "policy.text: saw %s %q, wanted %s. See: gpu-admission policy lint" .path .policy (replace "|" ", " $known)) }}
{{- end }}
{{- else if ne (kindOf $known) (kindOf .policy) }}
{{- fail (printf "policy.text: saw %v as %s, wanted a %s. See: gpu-admission policy lint" .policy .path (ternary "map" "list" (kindIs "map" $known))) }}
{{- else }}
{{- $list := kindIs "slice" $known }}
{{- $any := or $list (hasKey $known "*") }}
{{- range $key, $value := .policy }}
{{- $path := printf "%s.%v" $.path $key | trimPrefix "." }}
{{- if not (or $any (hasKey $known $key)) }}
{{- fail (printf "policy.text: saw %s, which is no key of a policy. See: gpu-admission policy lint" $path) }}
{{- end }}
{{- $of := "" }}
{{- if $list }}{{ $of = first $known }}{{ else }}{{ $of = get $known (ternary "*" $key $any) }}{{ end }}
{{- if not (and $list (eq "..." (toString $value))) }}
{{- include "gpu-admission.known" (dict "policy" $value "keys" $of "path" $path) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "gpu-admission.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
