-- S12, apache/flink#19778 (FLINK-27418): a row pushed out of the top, then deleted, returns as a ghost.
CREATE TABLE t (g int,s int);
CREATE VIEW v AS select g,s from (select g,s,row_number() over(partition by g order by s desc) rn from t) z where rn=1;
--! +t(1,5)
--= (1, 5)
--! +t(1,9)
--= (1, 9)
--! -t(1,5)
--= (1, 9)
--! -t(1,9)
--= empty
