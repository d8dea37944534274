-- S41, risingwave#5542, #4694: tombstone or Debezium delete for a key never seen: panic, or count -1.
CREATE TABLE u (k int PRIMARY KEY,v int);
CREATE VIEW v AS select count(*) n,sum(v) s from u;
--! ~u(9)
--= (0, NULL)
--! ^u(1,1) ~u(1) ~u(1)
--= (0, NULL)
--! ~u(9) ^u(9,2)
--= (1, 2)
