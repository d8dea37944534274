CREATE TABLE t (a INT);
CREATE VIEW v AS SELECT median(a) AS m FROM t;
--refused: the aggregate median is not supported yet; COUNT, SUM
