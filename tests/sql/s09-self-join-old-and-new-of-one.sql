-- S09, sraoss/pgsql-ivm#28, pg_ivm#162: self join: old and new of one table confused in one step.
CREATE TABLE t (i int,v int);
CREATE VIEW v AS select x.v xv,y.v yv from t x join t y on x.i=y.i;
--! +t(1,10) +t(2,20)
--= (10, 10) (20, 20)
--! -t(1,10) +t(1,11) +t(2,21)
--= (11, 11) (20, 20) (20, 21) (21, 20) (21, 21)
--! +t(3,30) -t(3,30)
--= (11, 11) (20, 20) (20, 21) (21, 20) (21, 21)
