-- S23, datafusion#12955: INTERSECT ALL returns all copies of one side.
CREATE TABLE a (x int);
CREATE TABLE b (x int);
CREATE VIEW v AS select x from a intersect all select x from b;
--refused: INTERSECT ALL is not supported
-- later: --! +a(1) +a(1) +a(2) +a(NULL) +a(NULL) +b(1) +b(NULL)
-- later: --= (1) (NULL)
-- later: --! +b(1)
-- later: --= (1) x2 (NULL)
-- later: --! -a(1) +b(1)
-- later: --= (1) (NULL)
-- later: --! -b(NULL)
-- later: --= (1)
