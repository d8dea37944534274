-- S25, datafusion#22881: FULL JOIN USING: merged key NULL for rows only on the right.
CREATE TABLE a (k int,x int);
CREATE TABLE b (k int,y int);
CREATE VIEW v AS select k,x,y from a full join b using(k);
--refused: FULL JOIN with USING
-- later: --! +a(1,10) +b(4,400)
-- later: --= (1, 10, NULL) (4, NULL, 400)
-- later: --! +b(1,100)
-- later: --= (1, 10, 100) (4, NULL, 400)
-- later: --! -a(1,10)
-- later: --= (1, NULL, 100) (4, NULL, 400)
