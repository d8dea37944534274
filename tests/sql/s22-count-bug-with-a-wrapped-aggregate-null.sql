-- S22, datafusion#15032: count bug with a wrapped aggregate: NULL instead of the ELSE value.
CREATE TABLE e (a int,b int);
CREATE VIEW v AS select e.b,(select case when max(x.a)>10 then 'hi' else 'lo' end from e x where x.b=e.b+1) c from e;
--! +e(1,2) +e(NULL,0)
--= (0, lo) (2, lo)
--! +e(50,1)
--= (0, hi) (1, lo) (2, lo)
--! -e(50,1)
--= (0, lo) (2, lo)
