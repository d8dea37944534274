-- S16, datafusion#23872, #22139: sliding MIN keeps a value that left; AVG of an all-NULL frame is NaN.
CREATE TABLE t (id int,x int);
CREATE VIEW v AS select id,min(x) over w lo,avg(x) over w m from t window w as (order by id rows between 1 preceding and current row);
--refused: window function
-- later: --! +t(1,3) +t(2,NULL) +t(3,NULL)
-- later: --= (1, 3, 3.0) (2, 3, 3.0) (3, NULL, NULL)
-- later: --! -t(2,NULL) +t(2,8)
-- later: --= (1, 3, 3.0) (2, 3, 5.5) (3, 8, 8.0)
-- later: --! -t(1,3)
-- later: --= (2, 8, 8.0) (3, 8, 8.0)
