"""Plain facts that the corpus is made from: countries and capitals, words, units."""

import re

# country, capital, 国家, 首都
_COUNTRIES = """
China|Beijing|中国|北京
Japan|Tokyo|日本|东京
South Korea|Seoul|韩国|首尔
North Korea|Pyongyang|朝鲜|平壤
Mongolia|Ulaanbaatar|蒙古|乌兰巴托
Vietnam|Hanoi|越南|河内
Thailand|Bangkok|泰国|曼谷
Laos|Vientiane|老挝|万象
Cambodia|Phnom Penh|柬埔寨|金边
Malaysia|Kuala Lumpur|马来西亚|吉隆坡
Indonesia|Jakarta|印度尼西亚|雅加达
the Philippines|Manila|菲律宾|马尼拉
India|New Delhi|印度|新德里
Pakistan|Islamabad|巴基斯坦|伊斯兰堡
Nepal|Kathmandu|尼泊尔|加德满都
Bhutan|Thimphu|不丹|廷布
Bangladesh|Dhaka|孟加拉国|达卡
Afghanistan|Kabul|阿富汗|喀布尔
Iran|Tehran|伊朗|德黑兰
Iraq|Baghdad|伊拉克|巴格达
Syria|Damascus|叙利亚|大马士革
Lebanon|Beirut|黎巴嫩|贝鲁特
Jordan|Amman|约旦|安曼
Saudi Arabia|Riyadh|沙特阿拉伯|利雅得
Oman|Muscat|阿曼|马斯喀特
Qatar|Doha|卡塔尔|多哈
Turkey|Ankara|土耳其|安卡拉
Georgia|Tbilisi|格鲁吉亚|第比利斯
Armenia|Yerevan|亚美尼亚|埃里温
Azerbaijan|Baku|阿塞拜疆|巴库
Kazakhstan|Astana|哈萨克斯坦|阿斯塔纳
Uzbekistan|Tashkent|乌兹别克斯坦|塔什干
Russia|Moscow|俄罗斯|莫斯科
Ukraine|Kyiv|乌克兰|基辅
Belarus|Minsk|白俄罗斯|明斯克
Poland|Warsaw|波兰|华沙
Germany|Berlin|德国|柏林
France|Paris|法国|巴黎
Spain|Madrid|西班牙|马德里
Portugal|Lisbon|葡萄牙|里斯本
Italy|Rome|意大利|罗马
Greece|Athens|希腊|雅典
Austria|Vienna|奥地利|维也纳
Switzerland|Bern|瑞士|伯尔尼
Belgium|Brussels|比利时|布鲁塞尔
the Netherlands|Amsterdam|荷兰|阿姆斯特丹
Denmark|Copenhagen|丹麦|哥本哈根
Norway|Oslo|挪威|奥斯陆
Sweden|Stockholm|瑞典|斯德哥尔摩
Finland|Helsinki|芬兰|赫尔辛基
Iceland|Reykjavik|冰岛|雷克雅未克
Ireland|Dublin|爱尔兰|都柏林
the United Kingdom|London|英国|伦敦
Czechia|Prague|捷克|布拉格
Slovakia|Bratislava|斯洛伐克|布拉迪斯拉发
Hungary|Budapest|匈牙利|布达佩斯
Romania|Bucharest|罗马尼亚|布加勒斯特
Bulgaria|Sofia|保加利亚|索非亚
Serbia|Belgrade|塞尔维亚|贝尔格莱德
Croatia|Zagreb|克罗地亚|萨格勒布
Slovenia|Ljubljana|斯洛文尼亚|卢布尔雅那
Albania|Tirana|阿尔巴尼亚|地拉那
Estonia|Tallinn|爱沙尼亚|塔林
Latvia|Riga|拉脱维亚|里加
Lithuania|Vilnius|立陶宛|维尔纽斯
Cyprus|Nicosia|塞浦路斯|尼科西亚
Malta|Valletta|马耳他|瓦莱塔
Egypt|Cairo|埃及|开罗
Libya|Tripoli|利比亚|的黎波里
Tunisia|Tunis|突尼斯|突尼斯市
Algeria|Algiers|阿尔及利亚|阿尔及尔
Morocco|Rabat|摩洛哥|拉巴特
Sudan|Khartoum|苏丹|喀土穆
Ethiopia|Addis Ababa|埃塞俄比亚|亚的斯亚贝巴
Kenya|Nairobi|肯尼亚|内罗毕
Uganda|Kampala|乌干达|坎帕拉
Rwanda|Kigali|卢旺达|基加利
Tanzania|Dodoma|坦桑尼亚|多多马
Zambia|Lusaka|赞比亚|卢萨卡
Zimbabwe|Harare|津巴布韦|哈拉雷
Angola|Luanda|安哥拉|罗安达
Namibia|Windhoek|纳米比亚|温得和克
Ghana|Accra|加纳|阿克拉
Nigeria|Abuja|尼日利亚|阿布贾
Senegal|Dakar|塞内加尔|达喀尔
Mali|Bamako|马里|巴马科
Madagascar|Antananarivo|马达加斯加|塔那那利佛
Canada|Ottawa|加拿大|渥太华
the United States|Washington|美国|华盛顿
Cuba|Havana|古巴|哈瓦那
Jamaica|Kingston|牙买加|金斯敦
Costa Rica|San Jose|哥斯达黎加|圣何塞
Colombia|Bogota|哥伦比亚|波哥大
Venezuela|Caracas|委内瑞拉|加拉加斯
Ecuador|Quito|厄瓜多尔|基多
Peru|Lima|秘鲁|利马
Chile|Santiago|智利|圣地亚哥
Argentina|Buenos Aires|阿根廷|布宜诺斯艾利斯
Uruguay|Montevideo|乌拉圭|蒙得维的亚
Paraguay|Asuncion|巴拉圭|亚松森
Brazil|Brasilia|巴西|巴西利亚
Australia|Canberra|澳大利亚|堪培拉
New Zealand|Wellington|新西兰|惠灵顿
Fiji|Suva|斐济|苏瓦
"""
COUNTRIES = [tuple(line.split("|")) for line in _COUNTRIES.split("\n") if line]

# English word, Chinese word: nouns that also serve stories, copying and spelling
_NOUNS = """
cat 猫|dog 狗|bird 鸟|fish 鱼|horse 马|cow 牛|sheep 羊|pig 猪|tiger 老虎|rabbit 兔子|mouse 老鼠
snake 蛇|bear 熊|frog 青蛙|duck 鸭子|water 水|fire 火|mountain 山|river 河|sea 海|sun 太阳|moon 月亮
star 星星|rain 雨|snow 雪|wind 风|tree 树|flower 花|grass 草|leaf 叶子|house 房子|door 门|window 窗户
table 桌子|chair 椅子|book 书|pen 笔|paper 纸|letter 信|school 学校|teacher 老师|student 学生|friend 朋友
mother 妈妈|father 爸爸|child 孩子|bread 面包|rice 米饭|milk 牛奶|tea 茶|apple 苹果|pear 梨|egg 鸡蛋
hand 手|eye 眼睛|ear 耳朵|mouth 嘴|heart 心|head 头|car 汽车|train 火车|ship 船|bridge 桥|road 路
city 城市|village 村子|king 国王|clock 钟|key 钥匙|lamp 灯|box 盒子|stone 石头|gold 金子|garden 花园
"""
NOUNS = [tuple(p.split()) for line in _NOUNS.split("\n") if line for p in line.split("|")]

_OPPOSITES = """
big small|hot cold|long short|high low|fast slow|old new|good bad|happy sad|day night|open closed
rich poor|light dark|full empty|hard soft|wet dry|near far|early late|left right|up down|clean dirty
strong weak|loud quiet|thick thin|wide narrow|sweet sour|first last|heavy light|same different|in out|true false
"""
OPPOSITES = [tuple(p.split()) for line in _OPPOSITES.split("\n") if line for p in line.split("|")]
_ZH_OPPOSITES = "大 小|热 冷|长 短|高 低|快 慢|新 旧|好 坏|多 少|白天 黑夜|开 关|远 近|早 晚|左 右|上 下|里 外|强 弱|厚 薄|干净 脏|高兴 难过|黑 白"
ZH_OPPOSITES = [tuple(p.split()) for p in _ZH_OPPOSITES.split("|")]

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ZH_DAYS = "星期一 星期二 星期三 星期四 星期五 星期六 星期日".split()
MONTHS = (
    "January February March April May June July August September October November " "December"
).split()

COLOURS = "red blue green yellow white black brown orange pink grey".split()
ZH_COLOURS = dict(zip("红 蓝 绿 黄 白 黑".split(), "red blue green yellow white black".split()))

NAMES = (
    "Anna Ben Clara David Emma Felix Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Rosa "
    "Sam Tina Victor Wendy Max Lucy Oscar Nina Peter Sara Tom Ella Hugo Julia Karl Lily Mark"
).split()
ZH_NAMES = "小明 小红 小华 小丽 小刚 小强 小美 小军 小兰 小龙 小雨 小雪 小林 小月 小云 小天".split()

ADJECTIVES = (
    "small big old new red blue green white black warm cold soft quiet happy bright dark "
    "round long clean strange young kind brave clever lazy hungry gentle proud"
).split()
VERBS = (
    "sees finds likes carries paints draws follows watches opens moves keeps holds hides "
    "washes shows sells buys lifts brings cleans"
).split()
ADVERBS = "today slowly quickly again now often gladly here quietly twice early carefully".split()

# small unit, how many make the large one, large unit: powers of ten carry over to unseen numbers
UNITS = [
    ("centimetres", 100, "metres"),
    ("metres", 1000, "kilometres"),
    ("millimetres", 10, "centimetres"),
    ("grams", 1000, "kilograms"),
    ("kilograms", 1000, "tonnes"),
    ("millilitres", 1000, "litres"),
    ("cents", 100, "euros"),
    ("cents", 100, "dollars"),
]
ZH_UNITS = [
    ("厘米", 100, "米"),
    ("米", 1000, "公里"),
    ("毫米", 10, "厘米"),
    ("克", 1000, "公斤"),
    ("公斤", 1000, "吨"),
    ("毫升", 1000, "升"),
]
# learned by heart, so never asked among the held-out questions
TIMES = [
    ("seconds", 60, "minutes"),
    ("minutes", 60, "hours"),
    ("hours", 24, "days"),
    ("days", 7, "weeks"),
    ("months", 12, "years"),
]
ZH_TIMES = [("秒", 60, "分钟"), ("分钟", 60, "小时"), ("小时", 24, "天"), ("天", 7, "周")]


def articles(text):
    """a apple -> an apple"""
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
