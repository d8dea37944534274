-- S18, datafusion#25480: NOT IN whose correlation repeats the IN equality loses the correlation.
CREATE TABLE a (id int,z int);
CREATE TABLE b (id int,z int);
CREATE VIEW v AS select id from a where id not in (select b.id from b where b.id=a.id);
--! +a(1,10) +a(2,20) +a(NULL,30) +a(4,40) +b(1,5) +b(5,10)
--= (2) (4) (NULL)
--! +b(NULL,50)
--= (2) (4) (NULL)
--! -b(1,5)
--= (1) (2) (4) (NULL)
