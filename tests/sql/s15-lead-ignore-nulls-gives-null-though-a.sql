-- S15, datafusion#25471: LEAD IGNORE NULLS gives NULL though a later value exists.
CREATE TABLE t (id int,v int);
CREATE VIEW v AS select id,lead(v,2) ignore nulls over(order by id) l from t order by id;
--refused: window function
-- later: --! +t(1,10) +t(2,20) +t(3,30) +t(4,40) +t(5,NULL) +t(6,NULL) +t(7,70) +t(8,80) +t(9,NULL)
-- later: --= (1, 30) (2, 40) (3, 70) (4, 80) (5, 80) (6, 80) (7, NULL) (8, NULL) (9, NULL)
-- later: --! -t(7,70) +t(7,NULL)
-- later: --= (1, 30) (2, 40) (3, 80) (4, NULL) (5, NULL) (6, NULL) (7, NULL) (8, NULL) (9, NULL)
