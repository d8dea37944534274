-- S26, datafusion#21507: nullable UNIQUE taken as a key: GROUP BY loses a column.
CREATE TABLE t (a int,b int,c int, UNIQUE (a));
CREATE VIEW v AS select a,sum(c) s from t group by a,b;
--! +t(1,10,100) +t(NULL,20,200) +t(NULL,30,300)
--= (1, 100) (NULL, 200) (NULL, 300)
