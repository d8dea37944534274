CREATE TABLE a (x INT);
CREATE TABLE b (x INT);
CREATE VIEW v AS SELECT 'e' AS w, x FROM (SELECT x FROM a EXCEPT SELECT x FROM b) AS p UNION ALL SELECT 'i', x FROM (SELECT x FROM a INTERSECT SELECT x FROM b) AS q;
--! +a(1) +a(1) +a(2) +a(NULL) +b(2) +b(NULL)
--= (e, 1) (i, 2) (i, NULL)
--! -b(2) -a(1) -b(NULL)
--= (e, 1) (e, 2) (e, NULL)
--! -a(1) -a(NULL) +b(2) +b(2)
--= (i, 2)
