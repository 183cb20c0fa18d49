#!/bin/bash
# Exits 0 when /ping answers 200. The HEALTHCHECK of the image: it costs no interpreter and needs no curl.
port=${SAGEMAKER_BIND_TO_PORT:-${AIP_HTTP_PORT:-${K_SERVICE:+${PORT:-}}}}
port=${port:-8080}
request=$'GET /ping HTTP/1.0\r\nHost: localhost\r\n\r\n'
if [ -n "${LIGHTBOX_TLS_CERT:-}" ]; then
  # Whether it answers is asked, not who it is: the certificate names the host that callers know.
  exec 3< <(printf %s "$request" | timeout 4 openssl s_client -quiet -connect "127.0.0.1:$port" 2>/dev/null)
else
  exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
  printf %s "$request" >&3
fi
read -r -t 4 _ status _ <&3
[ "$status" = 200 ]
