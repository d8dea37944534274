-- S47, risingwave#12026, #12447: sink applies -old +new row by row: id = id + 1 deletes what it just wrote.
CREATE TABLE t (id int,v int);
CREATE VIEW v AS select id,v from t;
--! +t(1,1) +t(2,2) +t(3,3)
--= (1, 1) (2, 2) (3, 3)
--! -t(1,1) +t(2,1) -t(2,2) +t(3,2) -t(3,3) +t(4,3)
--= (2, 1) (3, 2) (4, 3)
