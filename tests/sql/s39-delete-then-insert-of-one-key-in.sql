-- S39, feldera#5929; risingwave#25350: delete then insert of one key in one step applied in the wrong order.
CREATE TABLE u (k int PRIMARY KEY,v int);
CREATE VIEW v AS select k,v from u;
--! ^u(1,10)
--= (1, 10)
--! ~u(1) ^u(1,11)
--= (1, 11)
--! ^u(1,12) ~u(1)
--= empty
--! ~u(1) ^u(1,13) ~u(1) ^u(1,14)
--= (1, 14)
