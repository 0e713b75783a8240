"""Sentences that mean the same in other words, by language, to try a teacher on."""

from __future__ import annotations

from collections.abc import Sequence

from st_static.languages import primary_of

# Six pairs a language, of the same six things. The two of a pair share hardly a word, so that a
# model whose vectors only tell which words there are does not put them together.
_BY_LANGUAGE = {
    "de": (
        "Der Ausschuss verschob den Beschluss.",
        "Das Gremium wird erst später entscheiden.",
        "Er kaufte sich einen Gebrauchtwagen.",
        "Der Mann hat ein Auto aus zweiter Hand erworben.",
        "Die Kinder spielen im Garten.",
        "Ein paar Jungen und Mädchen toben draußen auf dem Rasen.",
        "Sie hat Angst vor dem Fliegen.",
        "Reisen mit dem Flugzeug machen ihr Sorgen.",
        "Der Laden öffnet um neun Uhr morgens.",
        "Das Geschäft macht vormittags um 9 auf.",
        "Es hat die ganze Nacht stark geregnet.",
        "Heftiger Regen fiel bis zum Morgen.",
    ),
    "en": (
        "The committee postponed the decision until next week.",
        "The panel will not decide before the following week.",
        "He purchased a second-hand car.",
        "The man bought a used automobile.",
        "The kids are playing in the garden.",
        "Some children play outside in the yard.",
        "She is afraid of flying.",
        "Travelling by plane frightens her.",
        "The shop opens at nine in the morning.",
        "The store's doors open at 9 a.m.",
        "It rained heavily all night.",
        "There was a downpour until dawn.",
    ),
    "es": (
        "El comité aplazó la decisión.",
        "La comisión decidirá más tarde.",
        "Él compró un coche de segunda mano.",
        "El hombre adquirió un automóvil usado.",
        "Los niños juegan en el jardín.",
        "Unos chicos se divierten afuera, en el patio.",
        "Ella tiene miedo a volar.",
        "Viajar en avión le da miedo a la mujer.",
        "La tienda abre a las nueve de la mañana.",
        "El comercio empieza a atender a las 9 h.",
        "Llovió mucho toda la noche.",
        "Cayeron lluvias intensas hasta el amanecer.",
    ),
    "fr": (
        "Le comité a reporté la décision.",
        "La commission tranchera plus tard.",
        "Il a acheté une voiture d'occasion.",
        "L'homme s'est procuré une automobile déjà utilisée.",
        "Les enfants jouent dans le jardin.",
        "Des petits s'amusent dehors, dans la cour.",
        "Elle a peur de voler.",
        "Voyager en avion l'effraie.",
        "Le magasin ouvre à neuf heures du matin.",
        "La boutique accueille ses clients dès 9 h.",
        "Il a plu très fort toute la nuit.",
        "De fortes pluies sont tombées jusqu'à l'aube.",
    ),
    "it": (
        "Il comitato ha rinviato la decisione.",
        "La commissione deciderà più tardi.",
        "Lui ha comprato un'auto di seconda mano.",
        "L'uomo ha acquistato una macchina usata.",
        "I bambini giocano in giardino.",
        "Dei ragazzini si divertono fuori, nel cortile.",
        "Lei ha paura di volare.",
        "Viaggiare in aereo la spaventa.",
        "Il negozio apre alle nove del mattino.",
        "La bottega inizia l'attività alle ore 9.",
        "Ha piovuto forte tutta la notte.",
        "Una forte pioggia è caduta fino all'alba.",
    ),
    "ja": (
        "委員会は決定を来週に延期した。",
        "審議会が結論を出すのは翌週以降になる。",
        "彼は中古車を買った。",
        "男性は一度人が乗った自動車を購入しました。",
        "子どもたちが庭で遊んでいる。",
        "幼い子らが外の芝生ではしゃいでいます。",
        "彼女は飛行機に乗るのが怖い。",
        "空の旅をすると思うと、あの人はおびえてしまう。",
        "その店は朝九時に開く。",
        "ショップの営業開始は午前9時です。",
        "一晩中ひどく雨が降った。",
        "明け方まで土砂降りだった。",
    ),
    "ko": (
        "위원회는 결정을 다음 주로 미루었다.",
        "심의회는 내주 이후에야 결론을 내릴 것이다.",
        "그는 중고차를 샀다.",
        "남자는 남이 타던 자동차를 구입했습니다.",
        "아이들이 정원에서 놀고 있다.",
        "어린이들이 바깥 마당에서 뛰어다닙니다.",
        "그녀는 비행기 타는 것을 무서워한다.",
        "하늘을 나는 여행은 그 여자에게 두려운 일이다.",
        "그 가게는 아침 아홉 시에 문을 연다.",
        "상점의 영업 시작은 오전 9시입니다.",
        "밤새 비가 많이 내렸다.",
        "새벽까지 폭우가 쏟아졌다.",
    ),
    "nl": (
        "De commissie stelde het besluit uit.",
        "Het comité beslist pas later.",
        "Hij kocht een tweedehands auto.",
        "De man heeft een gebruikte wagen aangeschaft.",
        "De kinderen spelen in de tuin.",
        "Een paar jongens en meisjes vermaken zich buiten op het gras.",
        "Ze is bang om te vliegen.",
        "Reizen met het vliegtuig beangstigt haar.",
        "De winkel gaat om negen uur 's ochtends open.",
        "De zaak opent haar deuren om 9.00 uur.",
        "Het heeft de hele nacht hard geregend.",
        "Tot zonsopgang kwam het met bakken uit de lucht.",
    ),
    "pt": (
        "O comitê adiou a decisão.",
        "A comissão vai decidir mais tarde.",
        "Ele comprou um carro de segunda mão.",
        "O homem adquiriu um automóvel usado.",
        "As crianças brincam no jardim.",
        "Uns meninos se divertem lá fora, no quintal.",
        "Ela tem medo de voar.",
        "Viajar de avião a assusta.",
        "A loja abre às nove da manhã.",
        "O comércio começa a atender às 9 h.",
        "Choveu muito a noite toda.",
        "Caiu um temporal até o amanhecer.",
    ),
    "ru": (
        "Комитет отложил решение до следующей недели.",
        "Комиссия вынесет вердикт только через неделю.",
        "Он купил подержанную машину.",
        "Мужчина приобрёл автомобиль, бывший в употреблении.",
        "Дети играют в саду.",
        "Ребята резвятся на улице, на лужайке.",
        "Она боится летать.",
        "Путешествие на самолёте её пугает.",
        "Магазин открывается в девять утра.",
        "Лавка начинает работу в 9 часов.",
        "Всю ночь шёл сильный дождь.",
        "До рассвета лило как из ведра.",
    ),
    "zh": (
        "委员会把决定推迟到下周。",
        "评审团要到下个星期才会作出裁决。",
        "他买了一辆二手车。",
        "这名男子购置了别人开过的汽车。",
        "孩子们在花园里玩耍。",
        "一些小朋友在户外的院子里嬉戏。",
        "她害怕坐飞机。",
        "乘航班旅行让这位女士感到恐惧。",
        "商店早上九点开门。",
        "这家店铺上午9时开始营业。",
        "整夜都下着大雨。",
        "暴雨一直持续到黎明。",
    ),
}


def paraphrases_in(languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """A dozen sentences in each of some languages that there are any for; none is English.

    Returns:
        By language, sentences of which each is followed, or preceded, by its paraphrase.

    Example:
        >>> paraphrases_in(["ja", "sw"])["ja"][2:4]
        ('彼は中古車を買った。', '男性は一度人が乗った自動車を購入しました。')
    """
    codes = dict.fromkeys(map(primary_of, languages or ["en"]))
    return {code: _BY_LANGUAGE[code] for code in codes if code in _BY_LANGUAGE}
