-- The subquery's own k and the k that ties it to the row outside were taken for one.
CREATE TABLE a (k INT);
CREATE VIEW v AS SELECT k FROM a WHERE 0 NOT IN (SELECT x.k FROM a AS x CROSS JOIN a AS y WHERE y.k = a.k);
--refused: depends on the row outside by another one of this name, y.k; give the one in its SELECT list another name
