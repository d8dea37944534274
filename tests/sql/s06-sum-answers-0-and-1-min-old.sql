-- S06, risingwave#7412: SUM answers 0 (AND -1, MIN old value) once only NULLs are left in a group.
CREATE TABLE t (a int,b int);
CREATE VIEW v AS select a,count(*) n,sum(b) filter(where b>10) s,min(b) lo,avg(b) m from t group by a;
--! +t(1,1) +t(1,11) +t(2,14) +t(3,NULL)
--= (1, 2, 11, 1, 6.0) (2, 1, 14, 14, 14.0) (3, 1, NULL, NULL, NULL)
--! -t(1,11)
--= (1, 1, NULL, 1, 1.0) (2, 1, 14, 14, 14.0) (3, 1, NULL, NULL, NULL)
--! +t(2,NULL)
--= (1, 1, NULL, 1, 1.0) (2, 2, 14, 14, 14.0) (3, 1, NULL, NULL, NULL)
--! -t(2,14)
--= (1, 1, NULL, 1, 1.0) (2, 1, NULL, NULL, NULL) (3, 1, NULL, NULL, NULL)
