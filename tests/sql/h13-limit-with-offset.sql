CREATE TABLE t (x INT);
CREATE VIEW v AS SELECT x FROM t ORDER BY x NULLS LAST LIMIT 2 OFFSET 1;
--! +t(3) +t(1) +t(1) +t(NULL)
--= (1) (3)
--! -t(1)
--= (3) (NULL)
--! -t(1) -t(3)
--= empty
