CREATE TABLE t (a INT);
CREATE VIEW v AS SELECT a + random() AS r FROM t;
--refused: random has another value each time it is asked
