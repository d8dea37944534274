-- S07, risingwave#4954, #5882; vmware dbsp#150: global aggregate has no row before the first input, or loses it after the last delete.
CREATE TABLE t (v int);
CREATE VIEW v AS select count(*) n,count(v) c,sum(v) s,min(v) lo from t;
--! 
--= (0, 0, NULL, NULL)
--! +t(5)
--= (1, 1, 5, 5)
--! -t(5)
--= (0, 0, NULL, NULL)
