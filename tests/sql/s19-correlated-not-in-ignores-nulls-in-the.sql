-- S19, datafusion#25347: correlated NOT IN ignores NULLs in the subquery.
CREATE TABLE o (id int,g int);
CREATE TABLE i (id int,g int);
CREATE VIEW v AS select id from o where 3 not in (select id from i where i.g=o.g);
--! +o(1,1) +o(2,2) +i(1,1)
--= (1) (2)
--! +i(NULL,2)
--= (1)
--! -i(NULL,2)
--= (1) (2)
