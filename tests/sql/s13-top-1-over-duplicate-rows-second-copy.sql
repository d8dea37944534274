-- S13, risingwave#12282: top 1 over duplicate rows: second copy inserted or deleted gives an inconsistent change.
CREATE TABLE t (a int,b int,c int);
CREATE VIEW v AS select a,b,c,rank() over(partition by a order by b) r from t qualify r<=1;
--! +t(1,1,1)
--= (1, 1, 1, 1)
--! +t(1,0,1)
--= (1, 0, 1, 1)
--! +t(1,0,1)
--= (1, 0, 1, 1) x2
--! -t(1,0,1)
--= (1, 0, 1, 1)
--! -t(1,0,1)
--= (1, 1, 1, 1)
