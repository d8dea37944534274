CREATE TABLE a (k INT, x INT);
CREATE TABLE b (k INT, y INT);
CREATE VIEW v AS SELECT a.x, b.y FROM a RIGHT JOIN b ON a.k = b.k AND a.x < b.y;
--! +a(1,5) +a(1,5) +b(1,9) +b(1,3) +b(NULL,1)
--= (5, 9) x2 (NULL, 1) (NULL, 3)
--! -a(1,5) +b(1,9)
--= (5, 9) x2 (NULL, 1) (NULL, 3)
--! -a(1,5)
--= (NULL, 1) (NULL, 3) (NULL, 9) x2
--! +a(1,0) -b(1,9)
--= (0, 3) (0, 9) (NULL, 1)
