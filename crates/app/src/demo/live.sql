-- Requests by site, kept up to date: a join and a running aggregate.
-- Try: lakeward check, explain and query with this file.

CREATE SOURCE request (method TEXT, session_id TEXT, status INT, url TEXT)
  WITH (kafka = '${BROKER}', topic = 'web_requests', format = 'json');

CREATE SOURCE site (host TEXT PRIMARY KEY, team TEXT)
  WITH (kafka = '${BROKER}', topic = 'sites', format = 'json');

CREATE VIEW hit AS
  SELECT split_part(url, '/', 3) AS host, session_id, status FROM request;

CREATE VIEW by_site AS
  SELECT s.team, h.host, COUNT(*) AS requests, COUNT(*) FILTER (WHERE h.status >= 500) AS errors,
         COUNT(DISTINCT h.session_id) AS sessions
  FROM hit h JOIN site s ON s.host = h.host
  GROUP BY s.team, h.host;

CREATE SINK sites FROM by_site WITH (delta = '${FOLDER}/sites', mode = 'upsert', key = 'team, host');

SET step_max_messages = 40000;
SET state = '${FOLDER}/state';
