{{- define "lightbox.labels" -}}
app.kubernetes.io/name: lightbox
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lightbox.metadata" -}}
name: {{ .Release.Name }}
labels:
  {{- include "lightbox.labels" . | nindent 2 }}
{{- end }}

{{- /* How fast pods come and go, for the HorizontalPodAutoscaler and for the one that KEDA makes. */}}
{{- define "lightbox.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - type: Percent
      value: 100
      periodSeconds: 30
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - type: Percent
      value: 20
      periodSeconds: 60
{{- end }}

{{- define "lightbox.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
