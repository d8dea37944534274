-- S35, apache/calcite#5137; feldera#6782: a late row joins two sessions, a deleted one splits them.
CREATE TABLE t (k int,ts int);
CREATE VIEW v AS select k,min(ts) s,max(ts) e,count(*) n from (select k,ts,sum(brk) over(partition by k order by ts range between unbounded preceding and current row) g from (select k,ts,case when ts-lag(ts) over(partition by k order by ts)<=10 then 0 else 1 end brk from t) y) z group by k,g;
--refused: window function
-- later: --! +t(1,0) +t(1,20)
-- later: --= (1, 0, 0, 1) (1, 20, 20, 1)
-- later: --! +t(1,10)
-- later: --= (1, 0, 20, 3)
-- later: --! +t(1,10) +t(1,31)
-- later: --= (1, 0, 20, 4) (1, 31, 31, 1)
-- later: --! -t(1,10)
-- later: --= (1, 0, 20, 3) (1, 31, 31, 1)
-- later: --! -t(1,10)
-- later: --= (1, 0, 0, 1) (1, 20, 20, 1) (1, 31, 31, 1)
