-- S31, datafusion#22835; ClickHouse#106807: -0.0 and 0.0 are two keys in hash or byte-encoded rows.
CREATE TABLE a (x double,v int);
CREATE TABLE b (x double,w int);
CREATE VIEW v AS select a.v,b.w from a join b on a.x=b.x;
--! +a(0.0,1) +a('-0.0',2) +b('-0.0',7)
--= (1, 7) (2, 7)
--! +b(0.0,8)
--= (1, 7) (1, 8) (2, 7) (2, 8)
--! -a(0.0,1)
--= (2, 7) (2, 8)
