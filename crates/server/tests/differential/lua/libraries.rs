//! The libraries that Redis adds: `bit`, `cjson`, `cmsgpack` and `struct`.

/// Scripts, a line each.
pub const SCRIPTS: &str = r####"
cjson.encode=1
return bit.tobit(0xffffffff)
return bit.tobit(2^32+5)
return bit.band(0xff,0x0f,7)
return bit.bor(1,2,4)
return bit.bxor(5,1)
return bit.bnot(0)
return bit.lshift(1,31)
return bit.rshift(-1,28)
return bit.arshift(-256,4)
return bit.rol(0x12345678,12)
return bit.ror(0x12345678,12)
return bit.bswap(0x12345678)
return {bit.tohex(255),bit.tohex(-1,4),bit.tohex(255,-4),bit.tohex(1,0)}
return bit.band()
return bit.band('x')
return bit.band('7',3)
return bit.lshift(1,33)
return cjson.encode({1,2,3})
return cjson.encode({})
return cjson.encode({a=1})
return cjson.encode({1,{2,{3}}})
return cjson.encode('a"b\\c/d\n\t\b\f\r\1\127')
return cjson.encode(1.5)
return cjson.encode(1e20)
return cjson.encode(0.1)
return cjson.encode(-0.0001)
return cjson.encode(12345678901234567890)
return cjson.encode(1/3)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode(0/0)
return cjson.encode(1/0)
return cjson.encode(print)
return cjson.encode(function() end)
return cjson.encode({[1]=1,[1000]=2})
return cjson.encode({[1]=1,[3]=2})
return cjson.encode({[true]=1})
return cjson.encode({['1']=1})
local a={} a[1]=a return cjson.encode(a)
return cjson.decode('[1,2,3]')
return cjson.decode('{"a":{"b":[1,"x",null,true]}}').a.b[2]
return cjson.decode('{"a":null}').a==cjson.null
return type(cjson.decode('null'))
return tostring(cjson.decode('1.5'))
return tostring(cjson.decode('-1e3'))
return tostring(cjson.decode('0.1')==0.1)
return cjson.decode('"a\\u0041\\n\\/\\u00e9\\ud83d\\ude00"')
return cjson.decode(' [ ] ')
return #cjson.decode('[[],[]]')
return cjson.decode('[1,2,3]')[3]
return cjson.encode(cjson.decode('{"a":[1,{"b":"c"}]}'))
return (pcall(cjson.decode,'{'))
return (pcall(cjson.decode,''))
return (pcall(cjson.decode,'[1,2'))
return (pcall(cjson.decode,'[1] x'))
return (pcall(cjson.decode,string.rep('[',1001)))
return #cjson.encode(cjson.decode(string.rep('[',1000)..string.rep(']',1000)))
return cmsgpack.pack({1,2,3})
return cmsgpack.pack({a=1})
return cmsgpack.pack(1,2,'x',true,false,nil)
return cmsgpack.pack(0,127,128,255,256,65535,65536,4294967295,4294967296,2^53)
return cmsgpack.pack(-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649)
return cmsgpack.pack(0.1,0.5,1e300,-1.5)
return cmsgpack.pack(string.rep('x',31),string.rep('x',32))
return cmsgpack.pack(string.rep('x',256))
return cmsgpack.pack({})
return cmsgpack.pack({[1]=1,[3]=3})
return cmsgpack.pack({{},{{}}})
return cmsgpack.pack()
local a={} a[1]=a return cmsgpack.pack(a)
return {cmsgpack.unpack(cmsgpack.pack(1,'x',{1,2},true))}
return cmsgpack.unpack(cmsgpack.pack({a={b={1,2,'c'}}})).a.b
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),1)}
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3),2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2,1)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),0)}
return cmsgpack.unpack('\193')
return cmsgpack.unpack('\145')
return cmsgpack.unpack('')
return cmsgpack.unpack_one('x',9)
return cmsgpack.unpack_one('x',-1)
return cmsgpack.unpack({})
return tostring(cmsgpack.unpack(cmsgpack.pack(-1099511627776)))
return tostring(cmsgpack.unpack(cmsgpack.pack(0.1)))
return struct.pack('>I4',1)
return struct.pack('<I4',1)
return struct.pack('>i2hHbBlLT',-1,-2,3,-4,5,-6,7,8)
return struct.pack('>f',1.5)
return struct.pack('<d',1.5)
return struct.pack('s','abc')
return struct.pack('c2','abc')
return struct.pack('c0','abc')
return struct.pack('>Ic0',3,'abc')
return struct.pack('!4bI',1,2)
return struct.pack('b x b',1,2)
return struct.pack('c5','abc')
return struct.pack('z')
return struct.pack('!3b',1)
return struct.pack('I33',1)
return struct.pack('I',{})
return {struct.unpack('>I4',struct.pack('>I4',77))}
return {struct.unpack('<i2hHbB',struct.pack('<i2hHbB',-1,-2,3,-4,5))}
return {struct.unpack('>bIc0',struct.pack('>bIc0',1,3,'abc'))}
return {struct.unpack('ss',struct.pack('ss','ab','cd'))}
return {struct.unpack('I2',struct.pack('I2I2',7,8),3)}
return struct.unpack('I4','ab')
return struct.unpack('s','ab')
return struct.unpack('c0','ab')
return struct.unpack('I','abcd',0)
return {struct.size('>I4i2b'),struct.size('!8bd')}
return struct.size('s')
return struct.size('c0')
return {struct.unpack('',  'a', -1e300)}
return struct.unpack('b', 'a', -5)
return {struct.unpack('hc0', '\255\255abc')}
return struct.pack('>I2L', 1/0, 1/0)
return tostring(cmsgpack.unpack('\207\255\255\255\255\255\255\255\254'))
return cmsgpack.unpack('\129\192\001')
return cmsgpack.unpack_one('a', 9007199254740993)
return cmsgpack.unpack_one('a', 0/0)
return cmsgpack.unpack_limit('a', 1/0)
local x = cmsgpack.unpack(string.rep('\1', 8100))
local x = cmsgpack.unpack_limit(string.rep('\1', 9000), 9000)
local x = struct.unpack(string.rep('b', 8100), string.rep('a', 8100))
"####;
