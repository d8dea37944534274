-- S03, feldera#3154: outer join right for sets, wrong for bags.
CREATE TABLE a (k int,v int);
CREATE TABLE b (k int);
CREATE VIEW v AS select a.k,a.v,b.k bk from a left join b on a.k=b.k;
--! +a(1,10) +a(1,10) +a(2,5)
--= (1, 10, NULL) x2 (2, 5, NULL)
--! +b(1) +b(1)
--= (1, 10, 1) x4 (2, 5, NULL)
--! -b(1)
--= (1, 10, 1) x2 (2, 5, NULL)
--! -b(1) -a(1,10)
--= (1, 10, NULL) (2, 5, NULL)
