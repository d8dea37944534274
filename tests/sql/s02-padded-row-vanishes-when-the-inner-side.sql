-- S02, apache/flink#29204 (FLINK-40681): padded row vanishes when the inner side is updated, then deleted.
CREATE TABLE a (k int,v TEXT);
CREATE TABLE d (k int PRIMARY KEY,w TEXT);
CREATE VIEW v AS select a.k,a.v,d.w from a left join d on a.k=d.k;
--! +a(1,'p') ^d(1,'x')
--= (1, p, x)
--! ^d(1,'y')
--= (1, p, y)
--! ~d(1)
--= (1, p, NULL)
--! ^d(1,'z') ~d(1)
--= (1, p, NULL)
