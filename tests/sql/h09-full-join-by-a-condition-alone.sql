CREATE TABLE a (x INT);
CREATE TABLE b (y INT);
CREATE VIEW v AS SELECT a.x, b.y FROM a FULL JOIN b ON a.x < b.y;
--! +a(1) +b(2) +a(9) +a(NULL)
--= (1, 2) (9, NULL) (NULL, NULL)
--! -b(2) +b(1)
--= (1, NULL) (9, NULL) (NULL, 1) (NULL, NULL)
--! +b(10) +b(10)
--= (1, 10) x2 (9, 10) x2 (NULL, 1) (NULL, NULL)
