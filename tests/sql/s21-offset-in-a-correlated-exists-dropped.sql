-- S21, datafusion#25283: OFFSET in a correlated EXISTS dropped.
CREATE TABLE a (k int);
CREATE TABLE b (v int);
CREATE VIEW v AS select k from a where exists(select * from b where b.v=a.k offset 1);
--refused: LIMIT or OFFSET in a subquery
-- later: --! +a(1) +a(2) +a(3) +b(1) +b(3)
-- later: --= empty
-- later: --! +b(1)
-- later: --= (1)
-- later: --! -b(1)
-- later: --= empty
