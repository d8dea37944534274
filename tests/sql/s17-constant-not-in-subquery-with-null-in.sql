-- S17, datafusion#25340: constant NOT IN (subquery with NULL) in WHERE keeps rows.
CREATE TABLE a (id int);
CREATE TABLE b (id int);
CREATE VIEW v AS select id from a where 3 not in (select id from b);
--! +a(1) +a(2) +b(1)
--= (1) (2)
--! +b(NULL)
--= empty
--! -b(NULL) +b(3)
--= empty
