-- S14, datafusion#24184: sliding RANGE frame: accumulator keeps values across an empty frame.
CREATE TABLE t (k int,v int);
CREATE VIEW v AS select k,v,sum(v) over w s,count(v) over w n,min(v) over w lo from t window w as (order by k range between 10 preceding and 5 preceding);
--refused: window function
-- later: --! +t(0,100) +t(10,90) +t(40,20)
-- later: --! +t(30,10)
-- later: --= (0, 100, NULL, 0, NULL) (10, 90, 100, 1, 100) (30, 10, NULL, 0, NULL) (40, 20, 10, 1, 10)
-- later: --! +t(30,7)
-- later: --= (0, 100, NULL, 0, NULL) (10, 90, 100, 1, 100) (30, 10, NULL, 0, NULL) (30, 7, NULL, 0, NULL) (40, 20, 17, 2, 7)
-- later: --! -t(0,100)
-- later: --= (10, 90, NULL, 0, NULL) (30, 10, NULL, 0, NULL) (30, 7, NULL, 0, NULL) (40, 20, 17, 2, 7)
