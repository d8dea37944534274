-- S20, datafusion#24960: EXISTS over an aggregate without GROUP BY: count bug drops rows.
CREATE TABLE a (x int);
CREATE TABLE b (y int);
CREATE VIEW v AS select x from a where exists(select count(*) from b where b.y=a.x);
--! +a(1) +a(2) +a(3)
--= (1) (2) (3)
--! +b(2)
--= (1) (2) (3)
--! -b(2)
--= (1) (2) (3)
