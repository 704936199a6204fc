# Serves the tools of pegboard-files for the folder /srv/files over HTTP, and those of other plugins that are added below.
#
#   docker build -t pegboard . && docker run -p 8000:8000 -e PEGBOARD_TOKEN=... -v ./files:/srv/files pegboard
FROM python:3.13-slim
ARG OWNER=1000
ENV PATH=/opt/pegboard/bin:/usr/local/bin:/usr/bin:/bin
ENV HOME=/srv/home
ENV PORT=8000
# The host names of its URLs, as clients write them.
ENV HOSTS='["localhost", "127.0.0.1"]'
COPY . /opt/source
RUN python3 -m venv /opt/pegboard
RUN pip install --quiet --no-cache-dir -c /opt/source/constraints.txt /opt/source /opt/source/plugins/pegboard-clients /opt/source/plugins/pegboard-mcp /opt/source/plugins/pegboard-files
RUN install -d -o $OWNER -g $OWNER /srv/home /srv/files
WORKDIR /srv/files
USER $OWNER:$OWNER
EXPOSE 8000
HEALTHCHECK CMD python3 -c "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/health')"
CMD exec registry serve --http 0.0.0.0:$PORT --token-env PEGBOARD_TOKEN --set "mcp.serve:={\"hosts\": $HOSTS}"
